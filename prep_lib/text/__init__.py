"""From raw text to fewer, cleaner documents."""
