"""How even shards are, and whether their order is one to train on."""
