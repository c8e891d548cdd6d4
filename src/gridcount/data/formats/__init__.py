"""File formats: each is read in pieces as a raw log, which becomes transitions."""
