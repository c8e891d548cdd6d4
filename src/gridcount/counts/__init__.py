"""Grid cells, the visit table, the uncertainty they give."""
