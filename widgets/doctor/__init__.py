"""What the doctor found, drawn."""
