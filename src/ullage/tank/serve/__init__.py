"""A worker's HTTP surface, in SGLang's names and shapes."""
