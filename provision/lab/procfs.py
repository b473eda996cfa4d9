"""Writes a machine's /proc, as far as a host is read from it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Interface, ip_address
from pathlib import Path

from provision.lab.kernel import KernelState, default_page, parameters
from provision.lab.layout import Layout, host_windows
from provision.lab.machine import Machine
from provision.lab.storage import mounts, volumes
from provision.lab.writer import TreeWriter

_FLAGS = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht syscall nx "
    "mmxext pdpe1gb rdtscp lm constant_tsc rep_good nopl nonstop_tsc pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 x2apic "
    "clflushopt movbe popcnt aes xsave avx f16c rdrand lahf_lm fsgsbase bmi1 avx2 smep bmi2 erms rdseed adx smap"
)
_BASE_MODULES = ("vhost_net", "vhost", "bridge", "zfs", "dm_thin_pool", "kvm", "tun", "xhci_pci")


def write_proc(machine: Machine, layout: Layout, state: KernelState, folder: Path, *, boot_id: str, now: int) -> None:
    """Write a whole /proc into ``folder``, which must be empty.  ``now``: seconds since 1970."""
    writer = TreeWriter(folder)
    release = machine.versions.kernel
    writer.file("cmdline", f"{state.cmdline}\n")
    writer.file("cpuinfo", "".join(_cpus(machine)))
    writer.file("meminfo", _meminfo(machine, state))
    writer.file("modules", "".join(f"{name} 65536 0 - Live 0x0000000000000000\n" for name in _modules(machine, state)))
    table = "".join(f"{m.source} {m.target} {m.fstype} {m.options} 0 0\n" for m in mounts(machine))
    for name in ("mounts", "self/mounts", "1/mounts"):
        writer.file(name, table)
    writer.file("swaps", _swaps(machine))
    writer.file(
        "version", f"Linux version {release} (build@proxmox) (gcc (Debian 14.2.0-19) 14.2.0) #1 SMP PREEMPT_DYNAMIC\n"
    )
    writer.file("uptime", "42.00 5376.00\n")
    writer.file("stat", f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {now}\nprocesses 1200\n")
    writer.file("loadavg", "0.08 0.03 0.01 1/1200 1400\n")
    writer.file("iomem", "".join(_iomem(machine, layout)), mode=0o400)
    writer.file("net/route", _route(machine))
    writer.file("net/ipv6_route", _IPV6_ROUTE)
    writer.file("net/dev", "Inter-|   Receive                            |  Transmit\n")
    _sysctls(writer, machine, boot_id)


def _sysctls(writer: TreeWriter, machine: Machine, boot_id: str) -> None:
    writer.values("sys/kernel", hostname=machine.node, osrelease=machine.versions.kernel, ostype="Linux")
    writer.values("sys/kernel/random", boot_id=boot_id)
    writer.values("sys/vm", swappiness=60)
    writer.values("sys/net/ipv4", ip_forward=0)


def _cpus(machine: Machine) -> Iterator[str]:
    cpu = machine.cpu
    per_socket = cpu.cores
    for number in range(cpu.count):
        core = number % (cpu.sockets * per_socket)
        yield (
            f"processor\t: {number}\nvendor_id\t: {cpu.vendor}\ncpu family\t: {cpu.family}\nmodel\t\t: {cpu.model}\n"
            f"model name\t: {cpu.model_name}\nstepping\t: {cpu.stepping}\ncpu MHz\t\t: {cpu.mhz}.000\n"
            f"physical id\t: {core // per_socket}\nsiblings\t: {cpu.cores * cpu.threads}\n"
            f"core id\t\t: {core % per_socket}\n"
            f"cpu cores\t: {cpu.cores}\nflags\t\t: {_flags(machine)}\n"
            f"address sizes\t: {cpu.phys_bits} bits physical, {57 if cpu.phys_bits > 48 else 48} bits virtual\n\n"
        )


def _flags(machine: Machine) -> str:
    own = "svm" if machine.cpu.vendor == "AuthenticAMD" else "vmx"
    return " ".join(word for word in (_FLAGS, own, machine.cpu.extra_flags) if word)


def _meminfo(machine: Machine, state: KernelState) -> str:
    total = machine.memory // 1024 * 98 // 100
    size = default_page(parameters(state.cmdline))
    pages = sum(state.hugepages.get(size, ()))
    taken = sum(each * sum(counts) for each, counts in state.hugepages.items())
    swap = sum(volume.size for volume in volumes(machine) if volume.fstype == "swap") // 1024
    return (
        f"MemTotal:       {total} kB\nMemFree:        {total * 96 // 100 - taken // 1024} kB\n"
        f"MemAvailable:   {total * 97 // 100 - taken // 1024} kB\n"
        f"SwapTotal:      {swap} kB\nSwapFree:       {swap} kB\n"
        f"HugePages_Total:   {pages}\nHugePages_Free:    {pages}\nHugepagesize:       {size // 1024} kB\n"
        f"Hugetlb:        {taken // 1024} kB\n"
    )


def _modules(machine: Machine, state: KernelState) -> list[str]:
    own = "kvm_amd" if machine.cpu.vendor == "AuthenticAMD" else "kvm_intel"
    vfio = ("vfio", "vfio_iommu_type1", "vfio_pci_core") if "vfio_pci" in state.modules else ()
    return sorted({*state.modules, *_BASE_MODULES, own, *vfio})


def _swaps(machine: Machine) -> str:
    head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    rows = (
        f"/dev/{v.dm:<40}partition\t{v.size // 1024 - 4}\t\t0\t\t-2\n" for v in volumes(machine) if v.fstype == "swap"
    )
    return head + "".join(rows)


def _iomem(machine: Machine, layout: Layout) -> Iterator[str]:
    yield "00001000-0009ffff : System RAM\n00100000-7fffffff : System RAM\n"
    for index, bridge in enumerate(machine.bridges):
        for first, last in host_windows(machine, index):
            yield f"{first:08x}-{last:08x} : PCI Bus 0000:{bridge.bus:02x}\n"
            for placed in layout.functions:
                if placed.bridge is bridge:
                    for bar in placed.bars:
                        if not bar.is_io and first <= bar.start <= last:
                            yield f"  {bar.start:08x}-{bar.start + bar.size - 1:08x} : {placed.bdf}\n"
    top = machine.memory + (1 << 31)
    yield f"100000000-{top - 1:08x} : System RAM\n"


def _hex(address: str) -> str:
    """As /proc/net/route prints an IPv4 address: the bytes in memory order of a little-endian machine."""
    return ip_address(address).packed[::-1].hex().upper()


def _route(machine: Machine) -> str:
    own = IPv4Interface(machine.network.address)
    head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    bridge, net = machine.network.bridge, own.network
    default = f"{bridge}\t00000000\t{_hex(machine.network.gateway)}\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    local = f"{bridge}\t{_hex(str(net.network_address))}\t00000000\t0001\t0\t0\t0\t{_hex(str(net.netmask))}\t0\t0\t0\n"
    return head + default + local


_IPV6_ROUTE = (
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n"
)
