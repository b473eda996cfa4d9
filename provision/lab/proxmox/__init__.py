"""The Proxmox VE objects of a simulated node, with the texts and quirks of the real ones."""
