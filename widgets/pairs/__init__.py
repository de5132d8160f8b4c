"""Near duplicates side by side, and who would go at another threshold."""
