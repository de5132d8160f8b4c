"""A chat template or strategy over real conversations: every token, its reason, what differs, and what is wrong."""
