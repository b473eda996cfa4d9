"""How a host boots: command line, boot loaders, modprobe.d and udev; parse, change one token, write back the rest."""
