"""Policies that can be saved, loaded and run without the log, the learner or JAX."""
