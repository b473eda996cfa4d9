"""pvectl: NVIDIA GPU passthrough on Proxmox VE, from the host's firmware to proof in the guest."""

__version__ = "0.1.0"
