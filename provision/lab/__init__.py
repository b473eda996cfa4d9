"""A simulated Proxmox host for the demo, tutorials and tests."""
