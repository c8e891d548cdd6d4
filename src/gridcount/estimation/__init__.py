"""Off-policy estimates: what a policy would be worth, from a log alone."""
