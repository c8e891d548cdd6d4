"""A policy over HTTP: typed requests in the log's columns, a guard, metrics, drift, a decision log, and
promotion under load."""
