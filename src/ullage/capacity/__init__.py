"""What pools hold: a request's demand, admission by an engine's rule, and the limits that follow. Pure."""
