"""Reports: one value, printed for people or for programs."""
