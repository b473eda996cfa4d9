"""doctor/rules."""
