"""What users of passthrough suffer from, and what of pvectl meets it.

Keys are numbers of a survey of 55 complaints, with a word on each.  ``rules`` are rules of the doctor or messages that
it knows, ``checks`` of ``pvectl verify``, ``planners`` what ``pvectl plan`` changes.  Where none of these fits,
``outside`` says which other part of pvectl it is, or why it is none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pain:
    says: str
    rules: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    planners: tuple[str, ...] = ()
    outside: str = ""


PAINS: dict[int, Pain] = {
    1: Pain("stale IOMMU group", ("mapping-stale", "pve-group-differs"), ("mapping-valid",), ("mapping",)),
    2: Pain("incomplete mapping", ("mapping-incomplete", "mapping-entry", "pve-property-missing"), (), ("mapping",)),
    3: Pain("one stale entry poisons the pool", ("mapping-stale",), ("mapping-valid",), ("mapping",)),
    4: Pain("addresses move", ("bdf-moved", "listing-moved"), (), ("mapping", "binding")),
    5: Pain("a card was removed", ("mapping-stale", "pve-device-gone"), ("mapping-valid",), ("mapping",)),
    6: Pain("a pool gives any card", ("mapping-pool-order",)),
    7: Pain("whole device or function", ("mapping-alternatives", "mapping-entry", "clique-unreachable")),
    8: Pain("two VMs, one GPU", ("vm-device-conflict",)),
    9: Pain("more than 16 slots", ("vm-hostpci-count",)),
    10: Pain("a NIC was renamed", ("bridge-port-missing",), ("network-name",), ("nic_names",)),
    11: Pain("a VM takes NIC or disk of the host", ("group-foreign-device",)),
    12: Pain("the group is not viable", ("group-not-viable", "group-foreign-device")),
    13: Pain("ids= grabs every like card", ("vfio-ids-shared",), (), ("binding",)),
    14: Pain("new_id is global", ("vfio-ids-shared",), (), ("binding",)),
    15: Pain("second start fails at new_id", ("vfio-open-failed", "vfio-not-bound"), (), ("binding",)),
    16: Pain("a host driver holds the card", ("vfio-not-bound", "group-functions-split"), ("driver",), ("binding",)),
    17: Pain("bound by the exit code only", ("vfio-not-bound",), ("driver",)),
    18: Pain("the boot framebuffer owns the BAR", ("bar-reserve", "host-console-on-gpu")),
    19: Pain("the console goes dark", ("host-console-on-gpu",)),
    20: Pain("a wizard writes a broken vfio.conf", ("modprobe-noop", "modprobe-risky", "vfio-ids-shared")),
    21: Pain(
        "substring edits hit another device",
        outside="files are read as tokens and rendered byte for byte: tests/boot and tests/pve hold it as a law",
    ),
    22: Pain("the wrong boot loader's file", ("cmdline-wrong-file", "cmdline-not-applied"), ("cmdline",)),
    23: Pain("amd_iommu=on", ("cmdline-noop",)),
    24: Pain("obsolete knobs", ("cmdline-noop", "cmdline-misspelt", "modules-obsolete")),
    25: Pain("iommu=off of bare-metal guides", ("iommu-off", "cmdline-risky"), ("iommu-on",), ("boot_cmdline",)),
    26: Pain("no interrupt remapping", ("iommu-no-intremap", "iommu-unsafe-interrupts")),
    27: Pain("RMRR", ("group-rmrr", "rmrr-refused")),
    28: Pain("the kernel asks for a 1:1 mapping of a card", ("rmrr-refused",)),
    29: Pain("the group is of type identity", ("vfio-set-group",)),
    30: Pain("a kernel refuses what an older one allowed", ("vfio-group-denied",)),
    31: Pain("bridge windows too small", ("bar-noassign", "bar-unassigned", "bar1-small")),
    32: Pain("power management of the link", ("aer-errors", "power-d3cold"), ("d3cold", "idle-d3")),
    33: Pain("false alarm of a slow link", ("link-speed-low", "smi-link-speed")),
    34: Pain("OVMF's window too small", ("cpu-caps-mmio-window", "bar-zero"), (), ("vm",)),
    35: Pain("address bits beyond the IOMMU", ("cpu-caps-mmio-window", "vfio-dma-map"), (), ("vm",)),
    36: Pain("the CPU model caps address bits", ("cpu-caps-mmio-window",), (), ("vm",)),
    37: Pain("slow boot with large BARs", ("vm-kernel-old-bigbar", "vm-start-slow")),
    38: Pain("start timeout with much memory", ("vm-start-slow",)),
    39: Pain(
        "a token may not set raw hostpci",
        outside="plans use mappings and say beforehand which rights are missing: pvectl auth",
    ),
    40: Pain(
        "a token may not set args", outside="the plan says what only root can set, and does it over SSH: pvectl auth"
    ),
    41: Pain("a bad args line", ("vm-args-stray-word", "clique-unreachable"), (), ("vm",)),
    42: Pain("code 43 folklore", ("vm-hypervisor-hidden", "clique-conflict"), ("guest-hypervisor",)),
    43: Pain("dotted device ids", ("clique-unreachable",), (), ("vm",)),
    44: Pain("ballooning", ("vm-balloon-passthrough",), (), ("vm",)),
    45: Pain("CPU type without AVX", ("vm-cpu-generic",), (), ("vm",)),
    46: Pain("NUMA lost", ("vm-numa-policy", "vm-numa-mismatch", "nccl-topo-missing"), (), ("vm",)),
    47: Pain(
        "churn of Terraform and Ansible",
        outside="a second plan is empty: tests/plan and the story test hold it as a law",
    ),
    48: Pain("closed modules on Blackwell", ("need-open",), ("guest-gsp",)),
    49: Pain("WPR2 already up", ("wpr2",)),
    50: Pain("the reset bug", ("flr-timeout", "reset-blackwell", "reset-none"), ("vm-running",)),
    51: Pain("GSP crash under load", ("xid", "gsp-rpc", "gsp-hb")),
    52: Pain("NVSwitch", ("vm-nvswitch-partial",), ("guest-cuda",)),
    53: Pain("guest Secure Boot", ("vm-secure-boot-keys", "module-key-rejected")),
    54: Pain("NCCL hangs with P2P", ("nccl-hang", "acs-redirect-host-gpus", "guest-cns"), ("guest-p2p",)),
    55: Pain("granted and false", ("vm-clique-untested", "guest-ok-unverified", "clique-unsafe"), ("guest-p2p",)),
}
