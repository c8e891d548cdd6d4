"""Where transitions come from, what is wrong with them, what they are like."""
