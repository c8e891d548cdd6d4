"""Curves and maps."""
