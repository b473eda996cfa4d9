"""Error codes of CUDA's driver interface (cuInit and the rest), with the causes that a VM adds.

Source: CUDA Toolkit documentation, cuda.h (CUresult).  The words are our own.
"""

from __future__ import annotations

from typing import NamedTuple

SOURCE = "CUDA Toolkit documentation, CUresult"


class CudaError(NamedTuple):
    code: int
    name: str
    text: str
    remedy: tuple[str, ...] = ()


_ROWS: tuple[CudaError, ...] = (
    CudaError(0, "SUCCESS", "no error"),
    CudaError(1, "INVALID_VALUE", "a program passed a wrong argument"),
    CudaError(2, "OUT_OF_MEMORY", "the GPU has not enough free memory", ("nvidia-smi   # who uses it",)),
    CudaError(
        3,
        "NOT_INITIALIZED",
        "CUDA could not start; with the open modules in a VM the usual cause is HMM in nvidia-uvm (dmesg: "
        "request_free_mem_region() err -34)",
        ("echo 'options nvidia_uvm uvm_disable_hmm=1' > /etc/modprobe.d/uvm.conf && reboot   # in the guest",),
    ),
    CudaError(4, "DEINITIALIZED", "the program is ending"),
    CudaError(
        34,
        "STUB_LIBRARY",
        "the stub of libcuda was loaded instead of the driver's library",
        ("ldconfig -p | grep libcuda   # leave folders named stubs out of LD_LIBRARY_PATH",),
    ),
    CudaError(
        46,
        "DEVICE_UNAVAILABLE",
        "the GPU is in exclusive or prohibited mode and somebody has it",
        ("nvidia-smi -q -d COMPUTE   # nvidia-smi -c DEFAULT shares it",),
    ),
    CudaError(
        100,
        "NO_DEVICE",
        "there is no GPU that CUDA may use: none started, or CUDA_VISIBLE_DEVICES hides them",
        ("nvidia-smi -L; env | grep CUDA; dmesg | grep NVRM",),
    ),
    CudaError(101, "INVALID_DEVICE", "a program asked for a GPU that is not there"),
    CudaError(102, "DEVICE_NOT_LICENSED", "a vGPU has no license", ("nvidia-smi -q | grep -i license",)),
    CudaError(200, "INVALID_IMAGE", "a kernel image is invalid"),
    CudaError(201, "INVALID_CONTEXT", "a program used a context that is none"),
    CudaError(205, "MAP_FAILED", "memory could not be mapped"),
    CudaError(
        209,
        "NO_BINARY_FOR_GPU",
        "the program has no code for this GPU",
        ("nvidia-smi --query-gpu=compute_cap --format=csv",),
    ),
    CudaError(
        214, "ECC_UNCORRECTABLE", "uncorrectable memory error of the GPU", ("nvidia-smi -q -d ECC,ROW_REMAPPER",)
    ),
    CudaError(215, "UNSUPPORTED_LIMIT", "a limit that this GPU does not have"),
    CudaError(216, "CONTEXT_ALREADY_IN_USE", "the context belongs to another thread"),
    CudaError(
        217,
        "PEER_ACCESS_UNSUPPORTED",
        "these two GPUs may not reach each other's memory",
        ("nvidia-smi topo -p2p rw   # pvectl p2p says which switch grants it",),
    ),
    CudaError(218, "INVALID_PTX", "the program's code could not be compiled for this GPU"),
    CudaError(220, "NVLINK_UNCORRECTABLE", "uncorrectable error of NVLink", ("nvidia-smi nvlink -e",)),
    CudaError(
        222, "UNSUPPORTED_PTX_VERSION", "the driver is older than the program's CUDA", ("nvidia-smi   # CUDA version",)
    ),
    CudaError(300, "INVALID_SOURCE", "invalid device code"),
    CudaError(301, "FILE_NOT_FOUND", "a file is missing"),
    CudaError(302, "SHARED_OBJECT_SYMBOL_NOT_FOUND", "a library is of another version"),
    CudaError(303, "SHARED_OBJECT_INIT_FAILED", "a library could not start"),
    CudaError(
        304,
        "OPERATING_SYSTEM",
        "a call of the operating system failed: the nodes of nvidia-uvm or the limit of locked memory",
        ("ls -l /dev/nvidia*; ulimit -l",),
    ),
    CudaError(400, "INVALID_HANDLE", "a program used a handle that is none"),
    CudaError(401, "ILLEGAL_STATE", "a program used a resource in a wrong state"),
    CudaError(500, "NOT_FOUND", "a name was not found"),
    CudaError(600, "NOT_READY", "work is not done yet; no error by itself"),
    CudaError(
        700, "ILLEGAL_ADDRESS", "a kernel used a wrong address: a fault of the program", ("compute-sanitizer PROGRAM",)
    ),
    CudaError(701, "LAUNCH_OUT_OF_RESOURCES", "a kernel wants more than the GPU has"),
    CudaError(702, "LAUNCH_TIMEOUT", "a kernel took too long"),
    CudaError(704, "PEER_ACCESS_ALREADY_ENABLED", "peer access is on already; no fault"),
    CudaError(705, "PEER_ACCESS_NOT_ENABLED", "peer access was not turned on"),
    CudaError(709, "CONTEXT_IS_DESTROYED", "the context is gone"),
    CudaError(710, "ASSERT", "an assertion in a kernel failed"),
    CudaError(711, "TOO_MANY_PEERS", "more peers than the hardware allows"),
    CudaError(712, "HOST_MEMORY_ALREADY_REGISTERED", "the memory is registered already"),
    CudaError(714, "HARDWARE_STACK_ERROR", "a kernel broke its stack", ("dmesg | grep Xid",)),
    CudaError(715, "ILLEGAL_INSTRUCTION", "a kernel met an illegal instruction", ("dmesg | grep Xid",)),
    CudaError(716, "MISALIGNED_ADDRESS", "a kernel used a misaligned address"),
    CudaError(717, "INVALID_ADDRESS_SPACE", "a kernel used a wrong address space"),
    CudaError(718, "INVALID_PC", "a kernel left its code", ("dmesg | grep Xid",)),
    CudaError(719, "LAUNCH_FAILED", "a kernel failed; the log of the kernel has an Xid", ("dmesg | grep Xid",)),
    CudaError(720, "COOPERATIVE_LAUNCH_TOO_LARGE", "a cooperative launch is too large"),
    CudaError(800, "NOT_PERMITTED", "not permitted"),
    CudaError(801, "NOT_SUPPORTED", "not supported here"),
    CudaError(
        802,
        "SYSTEM_NOT_READY",
        "the fabric is not ready: a board with NVSwitch without a running fabric manager, or without its "
        "switches in the "
        "VM. A GPU without NVLink shows it only in confidential computing that is not ready",
        ("systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -i -A3 fabric",),
    ),
    CudaError(
        803,
        "SYSTEM_DRIVER_MISMATCH",
        "libcuda and the kernel module are of different versions",
        ("cat /proc/driver/nvidia/version; ldconfig -p | grep libcuda   # then reboot the guest",),
    ),
    CudaError(
        804,
        "COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "the forward compatibility library is loaded on a GPU that may not use it",
        ("env | grep LD_LIBRARY_PATH   # leave /usr/local/cuda/compat out of it",),
    ),
    CudaError(805, "MPS_CONNECTION_FAILED", "the MPS server cannot be reached"),
    CudaError(806, "MPS_RPC_FAILURE", "the MPS server failed"),
    CudaError(807, "MPS_SERVER_NOT_READY", "the MPS server is not ready"),
    CudaError(808, "MPS_MAX_CLIENTS_REACHED", "the MPS server has no room for another client"),
    CudaError(809, "MPS_MAX_CONNECTIONS_REACHED", "the MPS server has no connection left"),
    CudaError(900, "STREAM_CAPTURE_UNSUPPORTED", "not allowed while a stream is captured"),
    CudaError(910, "GRAPH_EXEC_UPDATE_FAILURE", "a graph could not be updated"),
    CudaError(
        999,
        "UNKNOWN",
        "nvidia-uvm is not loaded, its device nodes are missing or old, or a GPU was lost before",
        ("modprobe nvidia-uvm && nvidia-modprobe -u -c=0   # in the guest; then: dmesg | grep Xid",),
    ),
)
CUDA_ERRORS: dict[int, CudaError] = {row.code: row for row in _ROWS}
BY_NAME: dict[str, CudaError] = {row.name: row for row in _ROWS}

# What the runtime calls them, where it has a name of its own.
RUNTIME_NAMES: dict[str, int] = {
    "MEMORYALLOCATION": 2,
    "INITIALIZATIONERROR": 3,
    "NODEVICE": 100,
    "DEVICESUNAVAILABLE": 46,
    "ILLEGALADDRESS": 700,
    "LAUNCHFAILURE": 719,
    "SYSTEMNOTREADY": 802,
    "SYSTEMDRIVERMISMATCH": 803,
    "COMPATNOTSUPPORTEDONDEVICE": 804,
    "PEERACCESSUNSUPPORTED": 217,
    "INSUFFICIENTDRIVER": 803,
}
