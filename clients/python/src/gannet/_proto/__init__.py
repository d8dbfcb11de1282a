"""Code that `scripts/generate.py` generates from the schema `gannet/v1/cache.proto`."""
