"""Roll-outs and normalised scores."""
