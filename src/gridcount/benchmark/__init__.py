"""Which runs make up a table or a figure, where they run, and what is kept of them."""
