"""The funnel: what each stage saw, kept, dropped and failed."""
