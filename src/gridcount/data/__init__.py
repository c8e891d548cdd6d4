"""Reading, checking and describing datasets."""
