"""Tokens coloured by loss, and why each is trained or not."""
