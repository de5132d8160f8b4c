"""Two versions of a text, what differs marked and counted."""
