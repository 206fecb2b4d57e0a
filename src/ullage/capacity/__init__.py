"""What pools hold: demand of a request, admission by a rule that an engine supplies, and the limits that follow. Pure."""
