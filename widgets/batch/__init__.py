"""A batch as a model gets it, and what it cost to read."""
