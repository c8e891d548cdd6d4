"""Choosing an algorithm and its settings from a log alone."""
