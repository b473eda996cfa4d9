"""Nothing that names a person, a place or a thing gets into a bundle, wherever it stands."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from base64 import b64encode

import pytest

from provision.capture.model import Capture, Item, Manifest
from provision.capture.share import Bundle, share
from provision.capture.store import save

CANARIES = {
    "host name": "kestrel7",
    "full name": "kestrel7.lab.acme-widgets.com",
    "other node": "osprey9",
    "user": "m.mustermann",
    "IPv4": "198.51.100.77",
    "IPv6": "2001:db8:77::beef",
    "MAC": "3c:ec:ef:12:34:56",
    "UUID": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
    "machine id": "7f3c9a1e5b2d4f608192a3b4c5d6e7f8",
    "serial": "S5GXNX0R912345",
    "DSN": "48b02dffff9a8b7c",
    "SSH key": "AAAAC3NzaC1lZDI1NTE5AAAAIOr3Qk7Zp0sYx8vWnR2tLq5uEaBcDdFfGgHhJjKkMmNn",
    "fingerprint": "SHA256:q7Zp0sYx8vWnR2tLq5uEaBcDdFfGgHhJjKkMmNnOoPp",
    "mail": "erika@acme-widgets.com",
    "domain": "acme-widgets.com",
    "storage": "tank-customers",
    "VM": "payroll-llm",
    "words": "confidential",
    "token": "hunter2-3f9a7c",
    "API token": "root@pam!deploy7",
    "volume": "ledger",
}
ALL = " ".join(CANARIES.values())
LINES = "".join(f"# {kind}: {text}\n" for kind, text in CANARIES.items())
NODE = CANARIES["host name"]
VM = f"""\
#{ALL}
name: {CANARIES["VM"]}
description: {ALL.replace(" ", "%20")}
tags: {CANARIES["words"]}
ciuser: {CANARIES["user"]}
cipassword: {CANARIES["token"]}
sshkeys: ssh-ed25519%20{CANARIES["SSH key"]}
ipconfig0: ip={CANARIES["IPv4"]}/24,ip6={CANARIES["IPv6"]}/64
searchdomain: {CANARIES["domain"]}
smbios1: uuid={CANARIES["UUID"]},serial={b64encode(CANARIES["serial"].encode()).decode()},sku={CANARIES["serial"]}
net0: virtio={CANARIES["MAC"].upper()},bridge=vmbr0
scsi0: {CANARIES["storage"]}:vm-100-disk-0,serial={CANARIES["serial"]},size=8G
scsi1: /dev/disk/by-id/nvme-ACME_{CANARIES["serial"]}-part1,size=8G
args: -smbios type=1,serial={CANARIES["serial"]},uuid={CANARIES["UUID"]} -netdev user,hostname={NODE}
hookscript: local:snippets/{CANARIES["words"]}.pl
hostpci0: mapping=gpus-of-{CANARIES["volume"]},pcie=1
unheard-of: {CANARIES["words"]}
{CANARIES["words"]} without a colon

[PENDING]
name: {CANARIES["VM"]}-new

[{CANARIES["words"]}]
#{ALL}
name: {CANARIES["VM"]}
"""
MAPPINGS = f"""\
# {ALL}
gpus-of-{CANARIES["volume"]}
\tmap id=10de:2bb5,iommugroup=31,node={NODE},path=0000:41:00.0,subsystem-id=10de:204e,description={CANARIES["words"]}
\tmap id=10de:2bb5,node={NODE},path=0000:42:00.0,description=pvectl dsn={CANARIES["DSN"]} at=\\_SB_.S0D2/01.1/00.0
\tmap {CANARIES["words"]}
\tdescription {ALL}
\t{CANARIES["words"]} {CANARIES["token"]}

"""
INTERFACES = f"""\
{LINES}auto vmbr0
iface vmbr0 inet static
\taddress {CANARIES["IPv4"]}/24
\tgateway {CANARIES["IPv4"]}
\thwaddress ether {CANARIES["MAC"]}
\tbridge-ports acme0
\tdns-search {CANARIES["domain"]}
\tpost-up echo {CANARIES["words"]} | mail {CANARIES["mail"]}
\twpa-psk {CANARIES["token"]}
"""
CLUSTER = {
    "nodename": NODE,
    "cluster": {"name": CANARIES["words"], "quorate": 1, "nodes": 2, "version": 3},
    "nodelist": {NODE: {"ip": CANARIES["IPv4"]}, CANARIES["other node"]: {"ip": CANARIES["IPv6"]}},
}
IDENTITY = {
    "schema": "pvectl.identity/1",
    "data": {"devices": {"0000:41:00.0": {"ids": "10de:2bb5", "dsn": CANARIES["DSN"], "path": "\\_SB_.S0D2/00.0"}}},
}
QUARANTINE = {
    "schema": "pvectl.quarantine/1",
    "data": {
        "gpus": [{"bdf": "0000:41:00.0", "vmid": 100, "fault": "stop", "reason": ALL, "boot_id": CANARIES["UUID"]}]
    },
}
MOUNTS = f"""\
/dev/mapper/acme--vg-{CANARIES["volume"]} /srv/{CANARIES["words"]} ext4 rw,x-user={CANARIES["user"]} 0 0
{CANARIES["full name"]}:/export/{CANARIES["words"]} /mnt/{CANARIES["words"]} nfs4 rw,addr={CANARIES["IPv4"]} 0 0
//{CANARIES["IPv4"]}/{CANARIES["words"]} /mnt/{CANARIES["volume"]} cifs rw,username={CANARIES["user"]} 0 0
"""
EFI = f"""\
BootCurrent: 0000
BootOrder: 0000,0001
Boot0000* proxmox\tHD(2,GPT,{CANARIES["UUID"]},0x800,0x200000)/File(\\EFI\\proxmox\\shimx64.efi)
Boot0001* UEFI: Samsung SSD {CANARIES["serial"]}\tPciRoot(0x0)/NVMe(0x1,{CANARIES["words"]})/HD(1,GPT,\
{CANARIES["UUID"]},0x1,0x2)
Boot0002* UEFI PXE {CANARIES["words"]}\tPciRoot(0x0)/MAC({CANARIES["MAC"].replace(":", "")},1)/IPv4(\
{CANARIES["IPv4"]},0,0)
{ALL}
"""
CMDLINE = (
    f"BOOT_IMAGE=/boot/vmlinuz root=UUID={CANARIES['UUID']} ro iommu=pt ip={CANARIES['IPv4']}::{CANARIES['IPv4']}:"
    f"255.255.255.0:{NODE}:eno1 rd.luks.token={CANARIES['token']} netconsole=@{CANARIES['IPv4']}/,"
    f"@[{CANARIES['IPv6']}]/{CANARIES['MAC']} home=/home/{CANARIES['user']} owner={CANARIES['mail']}\n"
)
FILES = {
    "/proc/sys/kernel/hostname": CANARIES["full name"] + "\n",
    "/etc/machine-id": CANARIES["machine id"] + "\n",
    "/proc/cmdline": CMDLINE,
    "/etc/default/grub": f'{LINES}GRUB_CMDLINE_LINUX_DEFAULT="{CMDLINE.strip()}" # {ALL}\n',
    "/etc/default/grub.d/10-site.cfg": LINES,
    "/etc/modprobe.d/site.conf": f"{LINES}options vfio-pci ids=10de:2bb5 # {CANARIES['words']}\n",
    "/etc/udev/rules.d/10-net.rules": f'{LINES}ATTR{{address}}=="{CANARIES["MAC"]}", NAME="acme0"\n',
    "/etc/network/interfaces": INTERFACES,
    "/etc/pve/storage.cfg": f"nfs: {CANARIES['storage']}\n\tserver {CANARIES['full name']}\n\tpath /mnt/{ALL}\n",
    "/etc/pve/ceph.conf": f"{LINES}fsid = {CANARIES['UUID']}\nmon_host = {CANARIES['IPv4']} [{CANARIES['IPv6']}]\n",
    "/etc/pve/corosync.conf": f"{LINES}nodelist {{\n  node {{\n    name: {CANARIES['other node']}\n    ring0_addr: "
    f"{CANARIES['other node']}\n  }}\n}}\ntotem {{\n  cluster_name: {CANARIES['words']}\n}}\n",
    "/etc/pve/ha/resources.cfg": f"vm: 100\n\tcomment {ALL}\n\tgroup {CANARIES['words']}\n",
    "/etc/pve/.members": json.dumps(CLUSTER),
    "/etc/pve/mapping/pci.cfg": MAPPINGS,
    f"/etc/pve/nodes/{NODE}/qemu-server/100.conf": VM,
    f"/etc/pve/nodes/{CANARIES['other node']}/qemu-server/101.conf": f"name: {CANARIES['VM']}\n",
    f"/etc/pve/nodes/{NODE}/host.fw": f"{LINES}IN ACCEPT -source {CANARIES['IPv4']} -iface acme0\n",
    "/etc/pve/sdn/vnets.cfg": f"vnet: acme0\n\talias {ALL}\n",
    "/var/lib/pvectl/identity.json": json.dumps(IDENTITY),
    "/var/lib/pvectl/lock": json.dumps({"run": "20250101T000000Z-1", "who": CANARIES["mail"], "host": NODE}),
    "/var/lib/pvectl/quarantine.json": json.dumps(QUARANTINE),
    "/proc/mounts": MOUNTS,
    "/proc/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
    "vmbr0\t006433C6\t4D6433C6\t0003\t0\t0\t0\t00FFFFFF\n",
    "/proc/net/ipv6_route": "20010db800770000000000000000beef 80 "
    f"{'0' * 32} 00 {'0' * 32} 00000400 1 0 00000001 vmbr0\n",
    "/proc/bus/input/devices": f'N: Name="{ALL}"\nU: Uniq={CANARIES["serial"]}\nH: Handlers=kbd\nB: EV=120013\n\n',
    "/proc/iomem": f"00000000-0fffffff : {CANARIES['words']}\n",
    "/proc/modules": f"vfio_pci 1 0 - Live 0x0 # {ALL}\n",
    "/proc/cpuinfo": f"vendor_id\t: AuthenticAMD\nserial\t\t: {CANARIES['serial']}\n\n{ALL}\n",
    "/sys/class/net/vmbr0/address": CANARIES["MAC"] + "\n",
    "/sys/block/dm-0/dm/name": f"acme--vg-{CANARIES['volume']}\n",
    "/sys/block/dm-0/dm/uuid": f"mpath-{CANARIES['serial']}\n",
    "/sys/class/iscsi_connection/connection1:0/persistent_address": CANARIES["IPv4"] + "\n",
    "/usr/bin/pve-network-interface-pinning": LINES,
    "/etc/something/else": ALL,
    "/etc/pve/user.cfg": ALL,
}
BINARY = {
    "/sys/bus/pci/devices/0000:41:00.0/config": ALL.encode() + b"\0" * 64,
    "/sys/firmware/acpi/tables/IVRS": b"IVRS" + CANARIES["serial"].encode().ljust(60, b"\0"),
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": CANARIES["words"].encode(),
    "/sys/firmware/efi/efivars/LoaderEntrySelected-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f": b"\6\0\0\0"
    + f"{NODE}.conf".encode("utf-16-le"),
    "/etc/modprobe.d/binary.conf": b"\0\1\2" + ALL.encode(),
    "/etc/default/grub.d/99.cfg": b"\x7fELF" + ALL.encode("utf-16-le"),
}
COMMANDS = {
    "ssh-connection": f"{CANARIES['IPv4']} 51000 {CANARIES['IPv6']} 22\n",
    "pveversion": f"pve-manager/9.0.3/025864202ebb6109 (running kernel: 6.14.8-2-pve)\n{ALL}\n",
    "zpool status -P -L": f"  pool: {CANARIES['storage']}\n  scan: {ALL}\n"
    f"\t/dev/disk/by-id/nvme-ACME_{CANARIES['serial']}-part1 ONLINE\n",
    "efibootmgr -v": EFI,
    "proxmox-boot-tool status": f"{CANARIES['UUID']} is configured with: uefi (versions: 6.14.8-2-pve)\n{ALL}\n",
    "pvs -o pv_name,vg_name --reportformat json": json.dumps(
        {"report": [{"pv": [{"pv_name": "/dev/sda3", "vg_name": "acme-vg", "note": ALL}]}], "log": [ALL]}
    ),
    "dmesg": ALL,
}
LINKS = {
    f"/dev/disk/by-id/nvme-ACME_{CANARIES['serial']}-part1": "../../nvme0n1p1",
    f"/dev/disk/by-label/{CANARIES['words']}": "../../nvme0n1p1",
    f"/dev/disk/by-uuid/{CANARIES['UUID']}": "../../nvme0n1p1",
    f"/dev/mapper/acme--vg-{CANARIES['volume']}": "../dm-0",
    "/sys/class/net/bond0.7": f"../../devices/virtual/net/{NODE}-uplink",
    "/sys/class/net/acme0": "../../devices/pci0000:40/0000:42:00.0/net/acme0",
    "/sys/class/net/enx3cecef123456": "../../devices/pci0000:00/usb1/net/enx3cecef123456",
}
FOLDERS = {
    "/etc/pve/nodes": f"{NODE}\n{CANARIES['other node']}\n",
    "/sys/fs/cgroup/system.slice": f"ssh.service\n{CANARIES['words']}.service\n",
}


def planted() -> Capture:
    """A capture with every canary in every place that a capture has."""
    items: list[Item] = []
    blobs: dict[str, bytes] = {}

    def put(kind, key, data, **more):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        items.append(Item(subject="host", key=key, kind=kind, state="read", sha256=digest, **more))

    for kind, texts in (("file", FILES), ("link", LINKS), ("dir", FOLDERS)):
        for key, text in texts.items():
            put(kind, key, text.encode(), reason=f"masked: {ALL}")
    for key, data in BINARY.items():
        put("file", key, data)
    for key, text in COMMANDS.items():
        put("command", key, text.encode(), argv=tuple(key.split()), rc=0, stderr=LINES)
    put("api", "/nodes", ALL.encode())
    items.append(Item(subject="host", key="/etc/modprobe.d/x.conf", kind="file", state="error", reason=ALL))
    items.append(Item(subject="guest/100", key="/etc/os-release", kind="file", state="read", sha256=items[0].sha256))
    manifest = Manifest(
        target=f"{CANARIES['user']}@{CANARIES['full name']}",
        hostname=CANARIES["full name"],
        created="2025-01-01T00:00:00Z",
        host_key=CANARIES["fingerprint"],
        notes=(ALL,),
    )
    return Capture(manifest, tuple(items), blobs)


def spellings(text: str) -> set[bytes]:
    """Ways in which a thing may stand in bytes."""
    plain = {text, text.lower(), text.upper(), text.replace(":", ""), text.replace("-", "--"), text.replace("-", "")}
    encoded = {b64encode(text.encode()).rstrip(b"=")[:-1], text.encode("utf-16-le")}
    if text == CANARIES["DSN"]:
        encoded.add(bytes.fromhex(text)[::-1])
    return {one.encode() for one in plain} | encoded


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return share(planted())


@pytest.fixture(scope="module")
def content(bundle, tmp_path_factory) -> bytes:
    """Every byte of the bundle as it is sent, unpacked."""
    path = tmp_path_factory.mktemp("bundle") / "bundle.tar.gz"
    save(bundle.capture, path)
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        files = [archive.extractfile(member) for member in archive if member.isreg()]
        return b"\n".join(file.read() for file in files if file is not None) + b"\n".join(
            name.encode() for name in archive.getnames()
        )


@pytest.mark.parametrize("kind", sorted(CANARIES))
def test_no_canary_is_in_the_bundle(content, kind):
    lowered = content.lower()
    for form in spellings(CANARIES[kind]):
        at = lowered.find(form.lower())
        assert at < 0, content[max(0, at - 120) : at + 80]


def test_addresses_in_hexadecimal_are_others_too(content):
    for digits in (b"4D6433C6", b"006433C6", b"20010db80077", b"3cecef123456"):
        assert digits.lower() not in content.lower()


def test_the_table_names_what_was_replaced_and_stays_outside(bundle, content):
    table = bundle.table
    assert table["host name"]["kestrel7"] == "host-1" or "host-" in table["host name"]["kestrel7"]
    assert {"IP address", "MAC address", "UUID", "serial number", "VM name", "storage name"} <= table.keys()
    assert bundle.replaced == {kind: len(own) for kind, own in table.items()}
    assert b"kestrel7" not in content


def test_what_is_needed_is_still_there(bundle):
    capture = bundle.capture
    host = bundle.table["host name"]["kestrel7"]
    text = capture.text(f"/etc/pve/nodes/{host}/qemu-server/100.conf")
    mapping = next(iter(bundle.table["mapping"].values()))
    assert f"hostpci0: mapping={mapping},pcie=1" in text
    assert text.splitlines()[15].startswith("hostpci0: ")
    assert f"{mapping}\n\tmap id=10de:2bb5,iommugroup=31,node={host},path=0000:41:00.0" in capture.text(
        "/etc/pve/mapping/pci.cfg"
    )
    assert "iommu=pt" in capture.text("/proc/cmdline")
    assert capture.text("/etc/modprobe.d/site.conf").splitlines()[len(CANARIES)] == "options vfio-pci ids=10de:2bb5 #"


def test_binary_content_that_is_not_known_is_left_out(bundle):
    for key in ("/etc/modprobe.d/binary.conf", "/sys/bus/pci/devices/0000:41:00.0/config"):
        item = bundle.capture.item(key)
        assert item is not None
        assert (item.state, item.sha256) == ("not_asked", None)


def test_two_bundles_of_one_host_have_different_addresses():
    first, second = share(planted()), share(planted())
    assert first.table["IP address"] != second.table["IP address"]
    assert first.table["host name"] == second.table["host name"]
