"""Checks of the paper's proofs on small problems with known solutions."""
