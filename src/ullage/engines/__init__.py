"""Engines: each reads its own evidence into a Server. Pure: text and documents in, figures out."""
