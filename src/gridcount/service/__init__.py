"""A policy over HTTP: typed requests, a guard, metrics, drift, a decision log, and promotion under load."""
