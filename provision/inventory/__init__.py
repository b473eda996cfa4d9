"""The user's wish: models, the loader with file and line, selection of GPUs, a starter file."""
