"""Files in another order: orders and their audit, a smaller set, and existing shards shuffled."""
