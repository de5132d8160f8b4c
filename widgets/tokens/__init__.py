"""What a vocabulary holds, and how texts are cut."""
