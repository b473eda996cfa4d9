"""Proof of the result: a pytest-testinfra suite over facts of host and guest, and its runner."""
