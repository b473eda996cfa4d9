"""Proxmox VE's objects: codecs, checks, repair, privileges, and the sessions that speak to a node."""
