"""What the paper proves, checked on small problems whose truth is known."""
