"""Every kind of text that can be read, in the order in which they are tried and named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provision.evidence import Maybe
from provision.readers import (
    boot_texts,
    command_line,
    gpu_matrix,
    kernel_log,
    mapping_text,
    nccl_log,
    nccl_tests,
    nccl_topology_xml,
    nvbandwidth,
    nvidia_params,
    p2p_latency_test,
    pci_text,
    pve_commands,
    pvesh_output,
    qemu_log,
    smi_query,
    smi_table,
    smi_xml,
    vm_text,
)
from provision.readers.document import Kind, Origin
from provision.readers.pci_cfg import PCI_CFG
from provision.readers.read import read as read_pci

NO_HINT = re.compile(r"(?!)")


def _told(reading: Any) -> Origin:
    origin: Origin = reading.origin
    return origin


def _smi_origin(reading: Any) -> Origin:
    return "guest" if reading.is_guest else "unknown"


def _pci_origin(reading: Any) -> Origin:
    return "guest" if pci_text.is_guest(reading) else "unknown"


def _unknown(_reading: Any) -> Origin:
    return "unknown"


def _host(_reading: Any) -> Origin:
    return "host"


@dataclass(frozen=True)
class KindReader:
    """How one kind of text is recognized and read."""

    kind: Kind
    title: str
    """For people: what to give."""
    recognize: Callable[[str], float]
    """0 to 1, from the first lines; 0.5 is enough."""
    read: Callable[[str], Maybe[Any]]
    origin_of: Callable[[Any], Origin] = _unknown
    """Which machine said it, from the reading."""
    hint: re.Pattern[str] = NO_HINT
    """Command, path or file name that speaks for this kind; it decides only where the content leaves a doubt."""
    is_whole: bool = False
    """Whether its reader puts the passages of one file together by itself."""
    yields_to: frozenset[Kind] = frozenset()
    """Kinds that have the same lines with more meaning: where one of them is recognized, this one is not."""


KINDS: tuple[KindReader, ...] = (
    KindReader(
        "pci-listing",
        "lspci in any form, or a listing of IOMMU groups",
        pci_text.recognize,
        read_pci,
        origin_of=_pci_origin,
        is_whole=True,
    ),
    KindReader(
        "kernel-log",
        "a kernel log (dmesg, journalctl -k, serial console, pstore)",
        kernel_log.recognize,
        kernel_log.read,
        origin_of=_told,
    ),
    KindReader(
        "cmdline",
        "a kernel command line (/proc/cmdline, /etc/kernel/cmdline)",
        command_line.recognize,
        command_line.read,
        hint=re.compile(r".*\bcmdline\b"),
    ),
    KindReader(
        "grub-default",
        "/etc/default/grub and its snippets",
        boot_texts.GRUB_DEFAULT.recognize,
        boot_texts.GRUB_DEFAULT.read,
        origin_of=_host,
        hint=re.compile(r".*/default/grub\b"),
    ),
    KindReader(
        "modprobe",
        "files of /etc/modprobe.d",
        boot_texts.MODPROBE.recognize,
        boot_texts.MODPROBE.read,
        hint=re.compile(r".*modprobe"),
    ),
    KindReader(
        "proxmox-boot-tool-status",
        "proxmox-boot-tool status",
        boot_texts.BOOT_TOOL_STATUS.recognize,
        boot_texts.BOOT_TOOL_STATUS.read,
        origin_of=_host,
    ),
    KindReader(
        "efibootmgr",
        "efibootmgr -v",
        boot_texts.EFIBOOTMGR.recognize,
        boot_texts.EFIBOOTMGR.read,
    ),
    KindReader(
        "vm-config",
        "a VM's configuration (its file, or qm config)",
        vm_text.recognize,
        vm_text.read,
        origin_of=_host,
        hint=re.compile(r"(?:.*\bqm config \d|.*\b\d{3,9}\.conf\b)"),
    ),
    KindReader(
        "pci-cfg",
        "/etc/pve/mapping/pci.cfg",
        PCI_CFG.recognize,
        PCI_CFG.read,
        origin_of=_host,
        hint=re.compile(r".*\bpci\.cfg\b"),
    ),
    KindReader(
        "pve-commands",
        "commands of pvesh or qm that change mappings or passthrough",
        pve_commands.recognize,
        pve_commands.read,
        origin_of=_host,
    ),
    KindReader(
        "mapping-json",
        "PCI mappings as JSON or a table of pvesh",
        mapping_text.recognize,
        mapping_text.read,
        origin_of=_host,
        yields_to=frozenset({"pci-cfg", "pve-commands"}),
    ),
    KindReader(
        "pvesh-json",
        "a node's PCI devices or a VM as JSON or a table of pvesh",
        pvesh_output.recognize,
        pvesh_output.read,
        origin_of=_host,
        yields_to=frozenset({"mapping-json"}),
    ),
    KindReader(
        "qemu-log",
        "what a VM's start printed (QEMU, the task's log), or qm showcmd",
        qemu_log.recognize,
        qemu_log.read,
        origin_of=_host,
    ),
    KindReader(
        "nvidia-smi-table",
        "nvidia-smi (table, -L, CSV, or its error)",
        smi_table.recognize,
        smi_table.read,
        origin_of=_smi_origin,
        yields_to=frozenset({"nvidia-smi-query", "nvidia-smi-xml"}),
    ),
    KindReader(
        "nvidia-smi-query",
        "nvidia-smi -q",
        smi_query.recognize,
        smi_query.read,
        origin_of=_smi_origin,
    ),
    KindReader(
        "nvidia-smi-xml",
        "nvidia-smi -q -x",
        smi_xml.recognize,
        smi_xml.read,
        origin_of=_smi_origin,
    ),
    KindReader(
        "nvidia-params",
        "the NVIDIA module's options (/proc/driver/nvidia/params)",
        nvidia_params.recognize,
        nvidia_params.read,
    ),
    KindReader(
        "topo-matrix",
        "nvidia-smi topo -m",
        gpu_matrix.recognize_topology,
        gpu_matrix.read_topology,
    ),
    KindReader(
        "topo-p2p",
        "nvidia-smi topo -p2p r (or w, n, a, p)",
        gpu_matrix.recognize_p2p,
        gpu_matrix.read_p2p,
    ),
    KindReader(
        "nvbandwidth",
        "nvbandwidth",
        nvbandwidth.recognize,
        nvbandwidth.read,
    ),
    KindReader(
        "p2p-bandwidth-latency-test",
        "p2pBandwidthLatencyTest",
        p2p_latency_test.recognize,
        p2p_latency_test.read,
    ),
    KindReader("nccl-tests", "a table of nccl-tests (all_reduce_perf ...)", nccl_tests.recognize, nccl_tests.read),
    KindReader("nccl-log", "a log of NCCL with NCCL_DEBUG=INFO", nccl_log.recognize, nccl_log.read),
    KindReader("nccl-topology-xml", "NCCL's topology as XML", nccl_topology_xml.recognize, nccl_topology_xml.read),
)


def reader_of(kind: Kind) -> KindReader:
    """Return the reader of a kind that is in :data:`KINDS`."""
    return next(reader for reader in KINDS if reader.kind == kind)


LOOKED_FOR: tuple[str, ...] = tuple(reader.title for reader in KINDS)
"""What to name where nothing was recognized."""
