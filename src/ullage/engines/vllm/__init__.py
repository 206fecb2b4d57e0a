"""vLLM: what its evidence says, by version, and the Server that follows."""
