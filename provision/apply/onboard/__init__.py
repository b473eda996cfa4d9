"""What travels to the host and runs there: standard library alone, Python 3.9 or newer, one file when it is sent."""
