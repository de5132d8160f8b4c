"""Files become batches."""
