"""Ids become files: shards a trainer reads, and the manifest that says what they are."""
