"""Readers of text that people paste: pure functions from text to values of :mod:`provision.pci.model`."""
