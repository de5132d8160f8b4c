"""What a person looks at and turns: pages from a state, and controls that change it."""
