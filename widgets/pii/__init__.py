"""What personal data stands in a set of documents, and where."""
