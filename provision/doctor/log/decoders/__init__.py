"""Decoders of the codes in messages of drivers and kernels: pure tables, and one function that applies them all."""

from __future__ import annotations

from provision.doctor.log.decoders.decode import Decoded, by_name, decode

__all__ = ["Decoded", "by_name", "decode"]
