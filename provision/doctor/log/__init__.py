"""Kernel logs: what their messages mean, as data; decoders of the codes in them; findings."""
