"""Against real servers, where they can run."""
