"""What a GPU guest can say about itself, as JSON on standard output.

One file, standard library only, sent over SSH and run by ``python3 -I -``; it leaves nothing
behind.  It needs no lspci, modinfo, systemd or toolkit: facts come from /proc and /sys, and from
NVML and CUDA through ctypes.  Every level is read even where an earlier one failed, because the
first level at which the number of GPUs drops names the fault.

Python 3.8 or newer.  Sources: the NVML and CUDA driver API headers, the kernel's sysfs ABI.
"""

from __future__ import annotations

import ctypes
import glob
import json
import mmap
import os
import platform
import signal
import struct
import sys
import time
from functools import partial
from typing import Any, Callable

SCHEMA = "pvectl.probe/1"
P2P_READ, P2P_WRITE, P2P_NVLINK, P2P_ATOMICS, P2P_PCIE = 0, 1, 2, 3, 4
P2P_NAMES = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3, "pcie": 4}
P2P_STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
CUDA_DEADLINE = 60.0
CUDA_BYTES = 1 << 20


class Missing(Exception):
    """A library or a call is not there; the text says which."""


class CallFailed(Exception):
    """A call answered with an error number."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} returned {code}")
        self.call = call
        self.code = code


# --- libraries -------------------------------------------------------------------------------


def load_library(names: list[str]) -> ctypes.CDLL:
    """Return the first library that loads; stubs (of build machines) are not asked for."""
    tried = []
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(f"{name}: {error}")
    raise Missing("; ".join(tried))


class Nvml:
    """The few NVML calls that are needed, each answering a value or raising CallFailed."""

    def __init__(self) -> None:
        self.lib = load_library(
            ["libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1"]
        )
        self.call("nvmlInit_v2")

    def call(self, name: str, *args: Any) -> None:
        function = getattr(self.lib, name, None)
        if function is None:
            raise Missing(f"{name} is not in this libnvidia-ml")
        code = function(*args)
        if code != 0:
            raise CallFailed(name, code)

    def text(self, name: str, *args: Any, size: int = 96, sized: bool = True) -> str:
        buffer = ctypes.create_string_buffer(size)
        if sized:
            self.call(name, *args, buffer, ctypes.c_uint(size))
        else:
            self.call(name, *args, buffer)
        return buffer.value.decode("utf-8", "replace")

    def number(self, name: str, *args: Any) -> int:
        value = ctypes.c_uint()
        self.call(name, *args, ctypes.byref(value))
        return value.value

    def driver_version(self) -> str:
        return self.text("nvmlSystemGetDriverVersion")

    def count(self) -> int:
        return self.number("nvmlDeviceGetCount_v2")

    def handle(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle

    def bdf(self, handle: ctypes.c_void_p) -> str:
        raw = ctypes.create_string_buffer(128)
        self.call("nvmlDeviceGetPciInfo_v3", handle, raw)
        domain, bus, device = struct.unpack_from("<III", raw.raw, 16)
        return f"{domain:04x}:{bus:02x}:{device:02x}.0"

    def memory(self, name: str, handle: ctypes.c_void_p) -> int:
        three = (ctypes.c_ulonglong * 3)()
        self.call(name, handle, three)
        return three[0]

    def pair(self, name: str, handle: ctypes.c_void_p) -> tuple[int, int]:
        first, second = ctypes.c_uint(), ctypes.c_uint()
        self.call(name, handle, ctypes.byref(first), ctypes.byref(second))
        return first.value, second.value

    def gpu(self, index: int) -> dict[str, Any]:
        """One GPU as a dict; a field whose call failed holds {"error": text}."""
        handle = self.handle(index)
        return {
            "index": index,
            "bdf": attempt(lambda: self.bdf(handle)),
            "name": attempt(lambda: self.text("nvmlDeviceGetName", handle)),
            "uuid": attempt(lambda: self.text("nvmlDeviceGetUUID", handle)),
            "vbios": attempt(lambda: self.text("nvmlDeviceGetVbiosVersion", handle, size=32)),
            "gsp_version": attempt(lambda: self.text("nvmlDeviceGetGspFirmwareVersion", handle, size=64, sized=False)),
            "gsp_enabled": attempt(lambda: bool(self.pair("nvmlDeviceGetGspFirmwareMode", handle)[0])),
            "bar1_bytes": attempt(lambda: self.memory("nvmlDeviceGetBAR1MemoryInfo", handle)),
            "memory_bytes": attempt(lambda: self.memory("nvmlDeviceGetMemoryInfo", handle)),
            "virtualization_mode": attempt(lambda: self.number("nvmlDeviceGetVirtualizationMode", handle)),
            "mig": attempt(lambda: self.pair("nvmlDeviceGetMigMode", handle)[0] == 1),
        }

    def p2p(self, first: int, second: int, capability: int) -> int:
        status = ctypes.c_int()
        self.call(
            "nvmlDeviceGetP2PStatus",
            self.handle(first),
            self.handle(second),
            ctypes.c_int(capability),
            ctypes.byref(status),
        )
        return status.value


class Cuda:
    """The driver API, as far as one allocation that is written and read back."""

    def __init__(self) -> None:
        self.lib = load_library(["libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1"])

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.lib, name)(*args)
        if code != 0:
            raise CallFailed(name, code)

    def count(self) -> int:
        self.call("cuInit", ctypes.c_uint(0))
        value = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(value))
        return value.value

    def bdf(self, index: int) -> str:
        device = self.device(index)
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, ctypes.c_int(32), device)
        return text.value.decode().lower()

    def device(self, index: int) -> ctypes.c_int:
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
        return device

    def write_and_read_back(self, index: int) -> bool:
        """Allocate, copy random bytes in, copy them out, compare.  Returns true where they are equal."""
        context, memory = ctypes.c_void_p(), ctypes.c_uint64()
        device = self.device(index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        try:
            self.call("cuCtxSetCurrent", context)
            self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(CUDA_BYTES))
            sent = os.urandom(CUDA_BYTES)
            back = ctypes.create_string_buffer(CUDA_BYTES)
            self.call("cuMemcpyHtoD_v2", memory, sent, ctypes.c_size_t(CUDA_BYTES))
            self.call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(CUDA_BYTES))
            self.call("cuMemFree_v2", memory)
            return back.raw == sent
        finally:
            self.call("cuDevicePrimaryCtxRelease_v2", device)


def cpuid_signature() -> str:
    """Return the hypervisor's twelve letters of CPUID leaf 0x40000000, such as ``KVMKVMKVM``.

    Run as machine code from an anonymous page: no file of the kernel shows this leaf, and it is
    what the NVIDIA driver itself looks at.  Raises Missing where it cannot be done.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise Missing("CPUID is an instruction of x86")
    # push rbx; mov eax,edi; xor ecx,ecx; cpuid; mov [rsi],ebx; mov [rsi+4],ecx; mov [rsi+8],edx; pop rbx; ret
    code = bytes.fromhex("5389f831c90fa2891e894e048956085bc3")
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except (OSError, ValueError) as error:
        raise Missing(f"no executable page: {error}") from error
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    answer = ctypes.create_string_buffer(12)
    ctypes.CFUNCTYPE(None, ctypes.c_uint, ctypes.c_void_p)(address)(0x40000000, ctypes.addressof(answer))
    return answer.raw.rstrip(b"\0").decode("ascii", "replace")


class Libraries:
    """What the machine really has.  A simulated guest passes its own."""

    nvml = staticmethod(Nvml)
    cuda = staticmethod(Cuda)
    cpuid = staticmethod(cpuid_signature)
    in_child = True


def attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (CallFailed, Missing) as error:
        return {"error": str(error)}


# --- files -----------------------------------------------------------------------------------


class Files:
    """Reads below a root folder; the root is / in a real guest."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def text(self, path: str) -> str | None:
        try:
            with open(self.root + path, "rb") as stream:
                return stream.read(1 << 20).decode("utf-8", "replace")
        except OSError:
            return None

    def data(self, path: str, size: int = 4096) -> bytes:
        try:
            with open(self.root + path, "rb") as stream:
                return stream.read(size)
        except OSError:
            return b""

    def names(self, pattern: str) -> list[str]:
        return sorted(path[len(self.root) :] for path in glob.glob(self.root + pattern))

    def link(self, path: str) -> str | None:
        try:
            return os.path.basename(os.readlink(self.root + path))
        except OSError:
            return None


def virtualization(files: Files, libraries: Any) -> dict[str, Any]:
    flags = files.text("/proc/cpuinfo")
    flag = (
        None
        if flags is None
        else any(line.startswith("flags") and " hypervisor" in line for line in flags.splitlines())
    )
    return {
        "cpu_flag": flag,
        "signature": attempt(libraries.cpuid) if flag else None,
        "dmi_vendor": (files.text("/sys/class/dmi/id/sys_vendor") or "").strip() or None,
        "dmi_product": (files.text("/sys/class/dmi/id/product_name") or "").strip() or None,
    }


def clique(config: bytes) -> Any:
    """Clique id of NVIDIA's P2P approval capability, None without it, {"error"} where it cannot be read."""
    if len(config) < 256:
        return {"error": f"configuration space is {len(config)} bytes long: read it as root"}
    offset = config[0x34] & 0xFC
    seen: set[int] = set()
    while offset >= 0x40 and offset not in seen and offset + 8 <= len(config):
        seen.add(offset)
        if config[offset] == 0x09 and config[offset + 3 : offset + 6] == b"P2P":
            return config[offset + 6] >> 3 & 0xF
        offset = config[offset + 1] & 0xFC
    return None


def bars(text: str | None) -> list[int]:
    """Sizes in bytes of BAR 0 to 5 from sysfs ``resource``; 0 where unassigned."""
    sizes = []
    for line in (text or "").splitlines()[:6]:
        start, end, _flags = (int(word, 16) for word in line.split())
        sizes.append(end - start + 1 if end else 0)
    return sizes


def pci_gpus(files: Files) -> list[dict[str, Any]]:
    found = []
    for vendor in files.names("/sys/bus/pci/devices/*/vendor"):
        folder = os.path.dirname(vendor)
        kind = (files.text(folder + "/class") or "").strip()
        if (files.text(vendor) or "").strip() != "0x10de" or kind[:6] not in ("0x0300", "0x0302"):
            continue
        found.append(
            {
                "bdf": os.path.basename(folder),
                "device": (files.text(folder + "/device") or "").strip(),
                "bar_bytes": bars(files.text(folder + "/resource")),
                "driver": files.link(folder + "/driver"),
                "clique": clique(files.data(folder + "/config")),
            }
        )
    return found


def module(files: Files) -> dict[str, Any]:
    version = files.text("/proc/driver/nvidia/version")
    loaded = files.text("/proc/modules") or ""
    return {
        "nvrm": version.splitlines()[0] if version else None,
        "open": None if version is None else "Open Kernel Module" in version,
        "version": (files.text("/sys/module/nvidia/version") or "").strip() or _version_of(version),
        "nvidia_loaded": any(line.split(" ")[0] == "nvidia" for line in loaded.splitlines()) or version is not None,
        "uvm_loaded": any(line.split(" ")[0] == "nvidia_uvm" for line in loaded.splitlines()),
    }


def _version_of(nvrm: str | None) -> str | None:
    for word in (nvrm or "").split():
        if word[0].isdigit() and word.count(".") >= 1 and word.replace(".", "").isdigit():
            return word
    return None


def proc_gpus(files: Files) -> list[dict[str, Any]]:
    found = []
    for path in files.names("/proc/driver/nvidia/gpus/*/information"):
        rows = (line.partition(":") for line in (files.text(path) or "").splitlines())
        values = {key.strip(): value.strip() for key, _colon, value in rows}
        found.append(
            {
                "bdf": os.path.basename(os.path.dirname(path)),
                "model": values.get("Model"),
                "firmware": values.get("GPU Firmware"),
                "uuid": values.get("GPU UUID"),
            }
        )
    return found


# --- levels ----------------------------------------------------------------------------------


def nvml_level(libraries: Any) -> dict[str, Any]:
    try:
        nvml = libraries.nvml()
        count = nvml.count()
        gpus = [attempt(partial(nvml.gpu, i)) for i in range(count)]
        return {"state": "ok", "driver": attempt(nvml.driver_version), "gpus": gpus, "p2p": matrix(nvml, count)}
    except Missing as error:
        return {"state": "missing", "reason": str(error)}
    except CallFailed as error:
        return {"state": "failed", "reason": str(error), "code": error.code}


def matrix(nvml: Any, count: int) -> dict[str, Any]:
    """Status text for every capability and ordered pair; "X" on the diagonal."""

    def cell(first: int, second: int, capability: int) -> Any:
        if first == second:
            return "X"
        answer = attempt(lambda: nvml.p2p(first, second, capability))
        return answer if isinstance(answer, dict) else P2P_STATUS.get(answer, str(answer))

    return {
        name: [[cell(a, b, number) for b in range(count)] for a in range(count)] for name, number in P2P_NAMES.items()
    }


def cuda_level(libraries: Any) -> dict[str, Any]:
    try:
        cuda = libraries.cuda()
        gpus = [
            {"bdf": attempt(partial(cuda.bdf, index)), "data": attempt(partial(cuda.write_and_read_back, index))}
            for index in range(cuda.count())
        ]
        return {"state": "ok", "gpus": gpus}
    except Missing as error:
        return {"state": "missing", "reason": str(error)}
    except CallFailed as error:
        return {"state": "failed", "reason": str(error), "code": error.code}


def in_child(work: Callable[[], dict[str, Any]], deadline: float) -> dict[str, Any]:
    """Run ``work`` in a forked child: a hang or a crash there is a result, not the end of the probe."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            os.setpgid(0, 0)
            os.write(writer, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    data, status = _collect(reader, pid, deadline)
    if status is None:
        return {"state": "hang", "reason": f"no answer in {deadline:.0f} s"}
    try:
        answer: dict[str, Any] = json.loads(data.decode())
        return answer
    except ValueError:
        return {"state": "crash", "reason": f"the child ended by {_ending(status)}"}


def _here(work: Callable[[], dict[str, Any]], _deadline: float) -> dict[str, Any]:
    return work()


def _ending(status: int) -> str:
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def _collect(reader: int, pid: int, deadline: float) -> tuple[bytes, int | None]:
    import select

    data: bytes = b""
    end = time.monotonic() + deadline
    while True:
        left = end - time.monotonic()
        ready = left > 0 and select.select([reader], [], [], left)[0]
        if not ready:
            os.kill(pid, signal.SIGKILL)
            # A process stuck in the driver may not die: do not wait for it for ever.
            os.waitpid(pid, os.WNOHANG)
            os.close(reader)
            return data, None
        part = os.read(reader, 65536)
        if not part:
            os.close(reader)
            return data, os.waitpid(pid, 0)[1]
        data += part


def probe(root: str = "/", libraries: Any = Libraries) -> dict[str, Any]:
    """Return everything as one dict; see the keys below."""
    files = Files(root)
    # NVML and CUDA in children: a wedged driver must not take the rest of the answer with it.
    run = in_child if libraries.in_child else _here
    return {
        "schema": SCHEMA,
        "python": platform.python_version(),
        "kernel": (files.text("/proc/sys/kernel/osrelease") or "").strip() or None,
        "boot_id": (files.text("/proc/sys/kernel/random/boot_id") or "").strip() or None,
        "euid": os.geteuid(),
        "virtualization": virtualization(files, libraries),
        "pci": pci_gpus(files),
        "module": module(files),
        "proc": proc_gpus(files),
        "nvml": run(lambda: nvml_level(libraries), CUDA_DEADLINE),
        "cuda": run(lambda: cuda_level(libraries), CUDA_DEADLINE),
    }


def main(stdout: Any = None, root: str = "/", libraries: Any = Libraries) -> int:
    out = stdout or sys.stdout
    out.write(json.dumps(probe(root, libraries)) + "\n")
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
