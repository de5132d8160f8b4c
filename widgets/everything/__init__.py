"""Run on everything: what was explored on a sample, started in the background and followed from its files."""
