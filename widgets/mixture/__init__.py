"""What each source gives of a mixture, planned before anything is read."""
