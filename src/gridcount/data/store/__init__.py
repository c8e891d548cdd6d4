"""Datasets on this machine: imported, downloaded, generated."""
