"""llama.cpp's server: its logs, endpoints and flags, read into a Server; and how it sizes its context."""
