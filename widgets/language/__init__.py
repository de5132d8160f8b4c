"""Which languages a set of documents is in, and how sure that is."""
