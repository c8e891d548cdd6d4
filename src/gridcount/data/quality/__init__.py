"""The quality of a dataset: one scan, its problems, its description."""
