"""Every kernel parameter that guides on passthrough name, one row each, with what it does on a Proxmox host.

A row's pattern is ``name`` for a bare word, or ``name=value`` where the value is compared with each part
between commas (``*`` and ``?`` as in a shell).  Names are in the kernel's form, with underscores.
"""

from __future__ import annotations

from dataclasses import dataclass

from provision.boot.lint.remark import KERNEL, PASSTHROUGH, Kind, Severity

AMD, INTEL = "AuthenticAMD", "GenuineIntel"
_AMD_INIT = "Linux, drivers/iommu/amd/init.c (parse_amd_iommu_options)"
_ACS_PATCH = "pve-kernel, patches/kernel (Enable overrides for missing ACS capabilities)"


@dataclass(frozen=True)
class Row:
    pattern: str
    kind: Kind
    severity: Severity
    text: str
    advice: str
    source: str = KERNEL
    only_on: str | None = None
    """CPU vendor on which the row holds; ``None`` for every one."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DROP = "leave it out"
_WITH_NEXT = "leave it; pvectl plan removes it with the next change of the command line (policies.boot.tidy)"


def _noop(pattern: str, text: str, source: str = KERNEL, only_on: str | None = None) -> Row:
    return Row(pattern, "no-op", "info", text, _WITH_NEXT, source, only_on)


NO_OPS: tuple[Row, ...] = (
    _noop(
        "amd_iommu=on",
        "the AMD IOMMU is on by default and the kernel does not know this value (it logs 'Unknown option')",
        _AMD_INIT,
    ),
    _noop("amd_iommu=pt", "the kernel does not know this value; pass-through mode is iommu=pt", _AMD_INIT),
    _noop("iommu=1", "not a value of iommu= on x86; the kernel ignores it"),
    _noop("iommu=on", "not a value of iommu= on x86; the kernel ignores it"),
    _noop("intel_iommu=*", "this host has an AMD processor: the driver that reads it never runs", only_on=AMD),
    _noop("amd_iommu=*", "this host has an Intel processor: the driver that reads it never runs", only_on=INTEL),
    _noop("nofb", "not a parameter of the kernel"),
    _noop("rd.driver.pre=*", "only dracut reads it; Proxmox VE uses initramfs-tools", PASSTHROUGH),
    _noop("rd.driver.blacklist=*", "only dracut reads it; Proxmox VE uses initramfs-tools", PASSTHROUGH),
    _noop("pci=noacs", "not an option of pci=; ACS is changed by pci=disable_acs_redir= and pci=config_acs= alone"),
)

OBSOLETE: tuple[Row, ...] = (
    Row(
        "systemd.unified_cgroup_hierarchy=0",
        "obsolete",
        "warning",
        "guides for containers of Proxmox VE 7 set it; Proxmox VE 8 and 9 use the unified hierarchy and containers "
        "may fail under the old one",
        _DROP,
        "Proxmox VE Administration Guide, Proxmox Container Toolkit, Control groups",
    ),
    Row("vga=*", "obsolete", "info", "GRUB 2 takes no vga= any more; it knows GRUB_GFXPAYLOAD_LINUX", _DROP),
    Row(
        "kvm.ignore_msrs=1",
        "obsolete",
        "info",
        "it hides unknown registers from Windows guests of the GeForce era; Linux guests do not need it",
        "leave it out unless a Windows guest needs it",
    ),
)

_IOMMU_OFF = "it turns the IOMMU off: no device can go to a guest"
_ONLY_DEBUG = "set it only while you look for a fault"

RISKY: tuple[Row, ...] = (
    Row("iommu=off", "risky", "error", _IOMMU_OFF, "leave it out, then reboot"),
    Row("amd_iommu=off", "risky", "error", _IOMMU_OFF, "leave it out, then reboot", _AMD_INIT),
    Row("intel_iommu=off", "risky", "error", _IOMMU_OFF, "leave it out, then reboot"),
    Row("iommu=soft", "risky", "error", "it copies through bounce buffers instead of using the IOMMU", _DROP),
    Row("intremap=off", "risky", "error", "without interrupt remapping vfio refuses devices", _DROP),
    Row("nointremap", "risky", "error", "without interrupt remapping vfio refuses devices", _DROP),
    Row(
        "vfio_iommu_type1.allow_unsafe_interrupts=1",
        "risky",
        "error",
        "allow_unsafe_interrupts lets a guest forge interrupts of the host; only boards without interrupt "
        "remapping need it",
        "leave it out and turn on interrupt remapping (x2APIC, VT-d) in the firmware",
        PASSTHROUGH,
    ),
    Row("pci=nomsi", "risky", "error", "GPUs and NVMe disks need message interrupts", _DROP),
    Row(
        "pcie_acs_override=*",
        "risky",
        "warning",
        "it asserts an isolation between devices that the hardware does not give: a guest's device may write to "
        "another's memory",
        "policies.acs: no-override, and move the card to a slot of its own root port",
        _ACS_PATCH,
    ),
    Row(
        "pci=config_acs=*",
        "risky",
        "warning",
        "it changes the isolation between devices; it merges IOMMU groups where it clears a bit and helps no transfer "
        "between GPUs of a guest",
        _DROP,
    ),
    Row(
        "pci=disable_acs_redir=*",
        "risky",
        "warning",
        "it merges IOMMU groups, and it helps no transfer between GPUs of a guest",
        _DROP,
    ),
    Row("pci=nocrs", "risky", "warning", "the kernel ignores which addresses firmware says are free", _DROP),
    Row("pci=noats", "risky", "warning", "it turns address translation services of devices off", _DROP),
    Row("pci=noaer", "risky", "warning", "noaer hides PCIe link errors, not their cause", _DROP),
    Row("mitigations=off", "risky", "warning", "guests can read each other's memory on affected processors", _DROP),
    Row(
        "intel_iommu=relax_rmrr",
        "risky",
        "warning",
        "it hands out devices whose memory the firmware still writes to (a patch of Proxmox); last resort on boards "
        "with such regions",
        "ask the maker of the board for a firmware without RMRR for this slot",
        "pve-kernel, patches/kernel (relax_rmrr)",
    ),
    Row("intel_iommu=sp_off", "risky", "warning", "without large pages the IOMMU is slow", _ONLY_DEBUG),
    Row(
        "vfio_iommu_type1.disable_hugepages=1", "risky", "info", "without large pages guests start slowly", _ONLY_DEBUG
    ),
    Row("vfio_pci.nointxmask=1", "risky", "info", "line interrupts cannot be shared any more", _ONLY_DEBUG),
)

NOTES: tuple[Row, ...] = (
    Row(
        "nomodeset",
        "note",
        "info",
        "nomodeset disables the host's graphics drivers, those of a BMC or integrated display too",
        "leave it out once the host boots without it",
    ),
    Row(
        "isolcpus=*",
        "note",
        "info",
        "isolcpus takes processors from the scheduler: it needs 1:1 pinning of a guest's processors, or all its "
        "threads stay on one of them",
        "pin the guest's processors one by one, or leave it out",
    ),
    Row("mem_encrypt=on", "note", "info", "encrypted memory changes addresses: no transfers between GPUs", _DROP),
    Row(
        "pci=realloc",
        "note",
        "info",
        "it moves windows of bridges; bus numbers may change",
        "keep it only if a BAR needs it",
    ),
    Row(
        "pci=realloc=on",
        "note",
        "info",
        "it moves windows of bridges; bus numbers may change",
        "keep it only if a BAR needs it",
    ),
    Row(
        "pci=assign_busses",
        "note",
        "info",
        "it numbers the buses anew: addresses of devices and names of network interfaces change",
        _DROP,
    ),
    Row(
        "nvidia.nvreg_*=*",
        "note",
        "info",
        "it reaches only cards that the host's own NVIDIA driver keeps",
        "set it in the guest: /etc/modprobe.d there",
    ),
)

ROWS: tuple[Row, ...] = (*NO_OPS, *OBSOLETE, *RISKY, *NOTES)

KNOWN_VALUES: dict[str, frozenset[str]] = {
    "amd_iommu": _words(
        """
        fullflush force_enable off force_isolation pgtbl_v1 pgtbl_v2 irtcachedis nohugepages v2_pgsizes_only
        """
    ),
    "intel_iommu": _words(
        """
        on off igfx_off forcedac strict sp_off sm_on sm_off tboot_noforce relax_rmrr nobounce
        """
    ),
    "iommu": _words(
        """
        off force noforce biomerge panic nopanic merge nomerge forcesac allowdac nodac usedac soft pt nopt
        noagp memaper fullflush nofullflush
        """
    ),
    "pcie_acs_override": frozenset({"downstream", "multifunction"}),
}
"""All values of parameters whose parser logs or ignores every other; ids and numbers are judged apart."""

LAST_WINS: frozenset[str] = _words(
    """
        vfio_pci.ids default_hugepagesz transparent_hugepage mitigations pcie_aspm pcie_port_pm
        numa_balancing iommu.passthrough iommu.strict vfio_iommu_type1.allow_unsafe_interrupts isolcpus
        mem_encrypt root
        """
)
"""Parameters of one value: of several only the last counts."""

NAMES: frozenset[str] = _words(
    """
        intel_iommu amd_iommu amd_iommu_intr iommu iommu.passthrough iommu.strict intremap nointremap pci
        pcie_acs_override pcie_aspm pcie_port_pm initcall_blacklist video nomodeset modprobe.blacklist
        module_blacklist default_hugepagesz hugepagesz hugepages transparent_hugepage numa_balancing
        isolcpus nohz_full rcu_nocbs processor.max_cstate idle mitigations mem_encrypt split_lock_detect
        quiet nmi_watchdog amd_pstate intel_pstate console panic root rootdelay
        systemd.unified_cgroup_hierarchy nouveau.modeset nvidia_drm.modeset cpufreq.default_governor
        loglevel
        """
)
"""Names against which a word is compared that looks like one of them and is none."""

REAL: frozenset[str] = NAMES | _words(
    """
        nohz nosmt nosmp nolapic noapic acpi apic initrd init ro rw boot rootflags rootfstype rootwait
        resume splash debug single text nosplash pti nopti noibrs noibpb ipv6.disable net.ifnames
        biosdevname crashkernel earlycon earlyprintk ignore_loglevel printk.time clocksource tsc hpet
        highres maxcpus nr_cpus numa acpi_osi acpi_enforce_resources intel_idle.max_cstate
        usbcore.autosuspend nvme_core.default_ps_max_latency_us consoleblank fbcon logo.nologo vt.handoff
        apparmor security selinux audit zfs.zfs_arc_max elevator libata.force pcie_ports pci_hotplug
        pciehp.pciehp_force iomem memmap mem efi nopat noautogroup pcie_pme radeon.modeset i915.modeset
        amdgpu.dc i915.enable_guc i915.max_vfs rcu_nocb_poll skew_tick irqaffinity kvm.ignore_msrs
        kvm.report_ignored_msrs kvm_amd.nested kvm_intel.nested kvm_amd.npt kvm_amd.avic
        """
)
"""Real parameters that resemble one of :data:`NAMES` or often stand beside them: never called misspelt."""

MODULE_OPTIONS: dict[str, frozenset[str]] = {
    "vfio_pci": _words(
        """
        ids nointxmask disable_vga disable_idle_d3 enable_sriov disable_denylist
        """
    ),
    "vfio_iommu_type1": frozenset({"allow_unsafe_interrupts", "disable_hugepages", "dma_entry_limit"}),
    "vfio": frozenset({"enable_unsafe_noiommu_mode"}),
}
"""All options of the modules that passthrough rests on: any other is unknown to them, and ignored."""
