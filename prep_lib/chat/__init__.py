"""Chat and preference records become token ids and the mask of what is trained."""
