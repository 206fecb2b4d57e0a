"""SGLang: its logs, endpoints and flags, read into a Server; and its admission rules."""
