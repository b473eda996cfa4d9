"""For each rule over documents texts on which it fires, nearly fires, and cannot decide.  All texts are invented."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """Each case is one text, or several that are given together."""

    rule: str
    severity: str
    says: str
    """Part of the summary."""
    fires: tuple[str, ...]
    near: tuple[str, ...]
    open: tuple[str, ...]
    """Without a fact that the rule needs."""
    subjects: tuple[str, ...] = ()


QUERY = """\
==============NVSMI LOG==============

Timestamp                                 : Mon Jan  5 10:00:00 2026
Driver Version                            : 590.10.01
CUDA Version                              : 13.0

Attached GPUs                             : {attached}
GPU 00000000:{bus}:{slot}.0
    Product Name                          : NVIDIA Example 6000
    MIG Mode
        Current                           : {mig}
    GPU Virtualization Mode
        Virtualization Mode               : {virtualization}
    PCI
        Bus Id                            : 00000000:{bus}:{slot}.0
        GPU Link Info
            PCIe Generation
                Max                       : {top_gen}
                Current                   : {gen}
            Link Width
                Max                       : {top_width}
                Current                   : {width}
    Performance State                     : {state}
    FB Memory Usage
        Total                             : {memory}
    BAR1 Memory Usage
        Total                             : {window}
    Processes                             : None
"""
_WELL = {
    "attached": 1,
    "bus": "01",
    "slot": "00",
    "mig": "Disabled",
    "virtualization": "Pass-Through",
    "top_gen": 5,
    "gen": 5,
    "top_width": "16x",
    "width": "16x",
    "state": "P0",
    "memory": "97887 MiB",
    "window": "131072 MiB",
}


def query(**changes: object) -> str:
    """``nvidia-smi -q`` of one GPU that is well but for what is changed."""
    return QUERY.format(**{**_WELL, **changes})


def p2p(*rows: str, asked: str | None = "r") -> str:
    """``nvidia-smi topo -p2p`` with its command above it, where ``asked`` says so."""
    head = "" if asked is None else f"root@guest:~# nvidia-smi topo -p2p {asked}\n"
    names = "\t".join(f"GPU{number}" for number in range(len(rows)))
    return head + f" \t{names}\n" + "".join(f" GPU{at}\t{row}\n" for at, row in enumerate(rows))


OK2 = ("X\tOK", "OK\tX")
WIRED = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t0-7\t0\n"


def topology(*rows: str) -> str:
    names = "\t".join(f"GPU{number}" for number in range(len(rows)))
    return f"\t{names}\tCPU Affinity\tNUMA Affinity\n" + "".join(f"GPU{at}\t{row}\n" for at, row in enumerate(rows))


def table(title: str, *rows: str) -> str:
    heads = "     ".join(str(number) for number in range(len(rows)))
    return f"{title}\n   D\\D     {heads}\n" + "".join(f"     {at} {row}\n" for at, row in enumerate(rows))


UNI = "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)"
UNI_OFF = "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)"
BI = "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)"
LATENCY = "P2P=Enabled Latency (P2P Writes) Matrix (us)"
FAST = table(LATENCY, "1.50 0.60", "0.61 1.52")
FAST3 = table(LATENCY, "1.50 0.60 0.60", "0.60 1.50 0.60", "0.60 0.60 1.50")
EVEN = table(UNI, "900.00 50.00", "50.10 901.00")

NCCL_LOG = """\
node:100:101 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
node:100:101 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init
node:100:101 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {via}
node:100:102 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via {via}
"""
TESTS = """\
# nThread 1 nGpus 2 minBytes 67108864 maxBytes 67108864 step: 2(factor) warmup iters: 1 iters: 20 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid    100 on       node device  0 [0000:01:00] NVIDIA Example 6000
#  Rank  1 Group  0 Pid    100 on       node device  1 [0000:02:00] NVIDIA Example 6000
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
    67108864      16777216     float     sum      -1  11000.0    {bus}    {bus}      0  11000.0    {bus}    {bus}      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : {bus}
#
"""
TOPOLOGY = """\
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="ffff:ff:01.0" class="0x060400">
      <pci busid="0000:{bus}:00.0" class="0x030200"><gpu dev="0"/></pci>
    </pci>
  </cpu>
</system>
"""
LISTING = """\
41:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)
\tFlags: fast devsel, IRQ 5
\tMemory at e0000000 (32-bit, non-prefetchable) [size=64M]
\tMemory at {where} (64-bit, prefetchable){size}
"""

LOST = "Unable to determine the device handle for GPU0: 0000:41:00.0: GPU is lost.  Reboot the system to recover it\n"

EXAMPLES = (
    Example(
        "smi-error",
        "error",
        "0000:41:00.0 is lost",
        (LOST,),
        (query(),),
        ("bash: nvidia-smi: command not found\n",),
        ("0000:41:00.0",),
    ),
    Example("smi-mig", "warning", "MIG is enabled on", (query(mig="Enabled"),), (query(),), (query(mig="ERR!"),)),
    Example(
        "smi-bar1-small",
        "info",
        "256 of 97887 MiB",
        (query(window="256 MiB"),),
        (query(),),
        (query(memory="N/A"),),
    ),
    Example(
        "smi-link-width",
        "warning",
        "8x of 16x lanes",
        (query(width="8x"),),
        (query(width="8x", top_width="8x"),),
        (query(top_width="N/A"),),
    ),
    Example(
        "smi-link-speed",
        "info",
        "generation 1 of 5: idle (P8)",
        (query(gen=1, state="P8"),),
        (query(),),
        (query(top_gen="N/A"),),
    ),
    Example("smi-cut", "warning", "announces 4 GPUs and holds 1", (query(attached=4),), (query(),), ()),
    Example(
        "guest-slot-conventional",
        "info",
        "on its first bus",
        (query(bus="00", slot="10"),),
        (query(bus="00", slot="10", virtualization="None"),),
        (query(bus="00", slot="10", virtualization="N/A"),),
    ),
    Example(
        "guest-forcep2p",
        "warning",
        "ForceP2P=0x11",
        ('RmLogonRC: 1\nEnableMSI: 1\nRegistryDwords: "ForceP2P=0x11"\n',),
        ('RmLogonRC: 1\nEnableMSI: 1\nRegistryDwords: "ForceP2P=0x0"\n',),
        ("ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nEnableMSI: 1\n",),
    ),
    Example(
        "guest-cns",
        "warning",
        "0-2, 1-2 because of the chipset (CNS), and grants it for 0-1",
        (p2p("X\tOK\tCNS", "OK\tX\tCNS", "CNS\tCNS\tX"),),
        (p2p(*OK2),),
        (p2p("X\tCNS", "CNS\tX", asked=None),),
        ("0-2", "1-2"),
    ),
    Example(
        "guest-ns",
        "info",
        "0-1 (NS: not supported)",
        (p2p("X\tNS", "NS\tX"),),
        (p2p("X\tNS", "NS\tX", asked="p"),),
        (p2p("X\tNS", "NS\tX", asked=None),),
        ("0-1",),
    ),
    Example(
        "guest-ok-unverified",
        "info",
        "grants P2P (OK) for 0-1; that data arrives is not shown",
        (p2p(*OK2),),
        (p2p(*OK2), WIRED),
        (p2p(*OK2, asked=None),),
        ("0-1",),
    ),
    Example(
        "p2p-staged-pairs",
        "warning",
        "every pair goes through the host's memory: 15.00 to 15.20 us",
        (EVEN + table(LATENCY, "1.50 15.00", "15.20 1.52"),),
        (EVEN + FAST,),
        (),
        ("0-1",),
    ),
    Example(
        "p2p-slow-pairs",
        "warning",
        "0-2 9.00",
        (table(UNI, "900.00 50.00 9.00", "50.00 900.00 50.00", "9.10 50.00 900.00") + FAST3,),
        (table(UNI, "900.00 50.00 49.00", "50.00 900.00 50.00", "49.10 50.00 900.00") + FAST3,),
        (table(UNI, "900.00 50.00 9.00", "50.00 900.00 50.00", "9.10 50.00 900.00"),),
        ("0-2",),
    ),
    Example(
        "p2p-uneven-pair",
        "info",
        "0-1 50.00 and 38.00",
        (table(UNI, "900.00 50.00", "38.00 901.00"),),
        (EVEN,),
        (table(UNI, "900.00 50.00", "N/A 901.00"),),
        ("0-1",),
    ),
    Example(
        "p2p-both-ways-half",
        "warning",
        "0-1 51.00 of both against 50.00 of one",
        (EVEN + table(BI, "900.00 51.00", "51.00 901.00") + FAST,),
        (EVEN + table(BI, "900.00 98.00", "98.00 901.00") + FAST,),
        (EVEN + table(BI, "900.00 51.00", "51.00 901.00"),),
        ("0-1",),
    ),
    Example(
        "gpus-cross-numa",
        "info",
        "2 NUMA nodes (GPU0 on node 0; GPU1-2 on node 1)",
        (topology("X\tNV4\tNV4\t0-7\t0", "NV4\tX\tNV4\t8-15\t1", "NV4\tNV4\tX\t8-15\t1"),),
        (topology("X\tPHB\t0-7\t0", "PHB\tX\t0-7\t0"),),
        (topology("X\tPHB\t0-7\t0", "PHB\tX\t0-7\t0").rpartition("GPU1\t")[0],),
        ("GPU0", "GPU1", "GPU2"),
    ),
    Example(
        "listing-bar-ignored",
        "error",
        "0000:41:00.0: the kernel ignored memory",
        (LISTING.format(where="<ignored>", size=""),),
        (LISTING.format(where="2000000000", size=" [size=128G]"),),
        (),
        ("0000:41:00.0",),
    ),
    Example(
        "nccl-bus-slow",
        "info",
        "6.10 GB/s at 64 MiB over SHM",
        (TESTS.format(bus="6.10"), NCCL_LOG.format(via="SHM/direct/direct")),
        (TESTS.format(bus="41.00"), NCCL_LOG.format(via="P2P/CUMEM")),
        (TESTS.format(bus="6.10"),),
        ("0->1",),
    ),
    Example(
        "nccl-topo-busid-mismatch",
        "warning",
        "does not have the guest's 0000:01:00",
        (TOPOLOGY.format(bus="0a"), query()),
        (TOPOLOGY.format(bus="01"), query()),
        (TOPOLOGY.format(bus="0a"),),
        ("0000:01:00",),
    ),
)
