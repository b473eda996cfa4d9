"""The suite that ``pvectl verify`` runs."""
