"""What to collect from host and guest, and the store that keeps it."""
