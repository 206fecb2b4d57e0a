"""Tells what an LLM server deployment can really hold."""

__version__ = "0.1.0"
