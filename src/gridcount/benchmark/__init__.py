"""Suites of runs for tables and figures: cells, where they run, and their results."""
