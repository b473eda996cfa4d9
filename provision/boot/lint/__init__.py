"""What is wrong with a kernel command line or a modprobe file, told from its text and a few facts of the host."""
