"""One file per command, with its flags."""
