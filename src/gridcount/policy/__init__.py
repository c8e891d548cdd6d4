"""The policy as a thing of its own: what acting needs, saved and loaded without the log, the learner or JAX."""
