"""Policies as ONNX files, with the log's counts and a contract, for programs without gridcount."""
