"""One file per command: its flags, one call, a table or a picture out."""
