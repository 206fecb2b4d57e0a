"""Readers: each looks at one thing (a server, a log, a file) and returns evidence, masked. They know no engine."""
