"""pytest plugin: options and fixtures of the proof suite.  Loaded in every pytest run: imports nothing heavy."""
