"""Tables, figures and report pages."""
