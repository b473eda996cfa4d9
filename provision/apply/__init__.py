"""Executes a plan on a host: journal and receipts on the host, resume from anywhere, rollback."""
