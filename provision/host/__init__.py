"""The frozen model of a host, assembled from a capture or from pasted text."""
