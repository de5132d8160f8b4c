"""Which benchmark items documents hold, and how well such items are found."""
