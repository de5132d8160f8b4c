"""Raw input becomes records and Documents."""
