"""The hypervisor's signature: no file of the kernel shows it, and the NVIDIA driver itself looks at it."""

from __future__ import annotations

import ctypes
import mmap
import platform

from provision.guest.onboard.errors import Missing

LEAF = 0x40000000
# push rbx; mov eax,edi; xor ecx,ecx; cpuid; mov [rsi],ebx; mov [rsi+4],ecx; mov [rsi+8],edx; pop rbx; ret
CODE = bytes.fromhex("5389f831c90fa2891e894e048956085bc3")


def cpuid_signature() -> str:
    """Return the twelve letters of CPUID leaf 0x40000000, such as ``KVMKVMKVM``.

    Run as machine code from an anonymous page.  Raises Missing where it cannot be done.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise Missing("CPUID is an instruction of x86")
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except (OSError, ValueError) as error:
        raise Missing(f"no executable page: {error}") from error
    page.write(CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    answer = ctypes.create_string_buffer(12)
    ctypes.CFUNCTYPE(None, ctypes.c_uint, ctypes.c_void_p)(address)(LEAF, ctypes.addressof(answer))
    return answer.raw.rstrip(b"\0").decode("ascii", "replace")
