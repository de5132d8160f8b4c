"""Thresholds rehearsed on signals that are there already."""
