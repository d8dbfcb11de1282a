"""Code that `scripts/generate.py` generates from the schemas `gannet/v1/*.proto`."""
