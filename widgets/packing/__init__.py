"""Packs drawn as strips, and all algorithms compared."""
