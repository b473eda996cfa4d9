"""Lines that frighten people and mean nothing bad."""

from __future__ import annotations

from provision.doctor.log.signature import Side, Signature


def _harmless(name: str, pattern: str, anchors: tuple[str, ...], side: Side, summary: str, source: str) -> Signature:
    return Signature(
        id=name,
        family="harmless",
        pattern=pattern,
        anchors=anchors,
        side=side,
        severity="info",
        summary=summary,
        consequence="none",
        remedy=(),
        source=source,
        nature="harmless",
    )


SIGNATURES: tuple[Signature, ...] = (
    _harmless(
        "vfio-hiding-capability",
        r"<BDF>: (?:vfio_ecap_init|vfio_cap_init): hiding (?:ecap|cap) 0x",
        ("hiding ecap", "hiding cap"),
        "host",
        "vfio hides a capability that a guest cannot use",
        "Linux, drivers/vfio/pci/vfio_pci_config.c",
    ),
    _harmless(
        "vgaarb",
        (
            r"vgaarb: (?:changed VGA decodes|deactivate vga console|setting as boot VGA device|bridge control "
            r"possible|VGA device added|loaded)"
        ),
        ("vgaarb",),
        "either",
        "the arbiter of VGA addresses notes who has them",
        "Linux, drivers/pci/vgaarb.c",
    ),
    _harmless(
        "no-crtc",
        r"Cannot find any crtc or sizes|No compatible format found",
        ("Cannot find any crtc", "No compatible format"),
        "either",
        "no screen is connected to a GPU",
        "Linux, drivers/gpu/drm/drm_fb_helper.c",
    ),
    _harmless(
        "kernel-tainted",
        (
            r"module verification failed: signature|taints kernel|tainting kernel|Disabling lock debugging "
            r"due to kernel taint"
        ),
        ("module verification failed", "taint"),
        "either",
        "a module from outside the kernel was loaded",
        "Linux, Documentation/admin-guide/tainted-kernels.rst",
    ),
    _harmless(
        "rom-no-address",
        (
            r"can't claim (?:BAR 6|ROM)|BAR 6(?:: \[mem[^\]]{1,60}\]|: |\s?\[mem[^\]]{1,60}\]: )(?:no space|"
            r"failed to assign|can't assign)|ROM \[mem[^\]]{1,60}\]: (?:can't|failed)"
        ),
        ("BAR 6", "ROM [mem", "can't claim ROM"),
        "either",
        "the option ROM of a device has no address; nothing after the start needs one",
        "Linux, drivers/pci/setup-res.c",
    ),
    _harmless(
        "rom-invalid",
        r"Invalid PCI ROM (?:header|data) signature",
        ("Invalid PCI ROM",),
        "host",
        "the option ROM of a device cannot be read; a GPU for compute needs none",
        "Linux, drivers/pci/rom.c",
    ),
    _harmless(
        "io-window",
        (
            r"bridge window \[io[^\]]{1,40}\]: (?:can't assign|failed to assign)|BAR (?:7|13): (?:no space "
            r"for|failed to assign) \[io"
        ),
        ("bridge window [io", "BAR 13: ", "BAR 7: "),
        "either",
        "a bridge got no I/O ports; devices of today use memory",
        "Linux, drivers/pci/setup-bus.c",
    ),
    _harmless(
        "doe-mailbox",
        r"DOE: \[[0-9a-f]{1,4}\] (?:ABORT timed out|failed to (?:reset|create) mailbox)",
        ("DOE: [",),
        "host",
        "the mailbox for attestation of a device did not answer; only confidential computing needs it",
        "Linux, drivers/pci/doe.c",
    ),
    _harmless(
        "bridge-reconfigured",
        r"bridge configuration invalid \(\[bus [0-9a-f-]{5}\]\), reconfiguring",
        ("bridge configuration invalid",),
        "either",
        "the kernel numbers a bridge that the firmware left alone",
        "Linux, drivers/pci/probe.c",
    ),
    _harmless(
        "ignored-msr",
        r"(?:ignored|unhandled) (?:rdmsr|wrmsr)",
        ("rdmsr", "wrmsr"),
        "host",
        "a guest asked for a register of the processor that KVM does not emulate",
        "Linux, arch/x86/kvm/x86.c",
    ),
    _harmless(
        "perf-interrupt",
        r"perf: interrupt took too long",
        ("perf: interrupt",),
        "either",
        "sampling slows itself down",
        "Linux, kernel/events/core.c",
    ),
    _harmless(
        "regulatory-db",
        (
            r"Direct firmware load for (?:regulatory\.db|iwl\S{1,40}|amdgpu/\S{1,40}) failed with error -2|"
            r"failed to load regulatory\.db"
        ),
        ("regulatory.db", "for iwl", "for amdgpu"),
        "either",
        "a firmware file that another device would like is not installed",
        "Linux, drivers/base/firmware_loader",
    ),
    _harmless(
        "persistence-deprecated",
        r"Persistence mode is deprecated",
        ("Persistence mode",),
        "guest",
        "the driver advises nvidia-persistenced",
        "NVIDIA Driver Persistence documentation",
    ),
    _harmless(
        "modeset-ownership",
        r"Failed to grab modeset ownership",
        ("modeset ownership",),
        "guest",
        "two programs want the display; none for compute",
        "NVIDIA open-gpu-kernel-modules, kernel-open/nvidia-drm",
    ),
)
