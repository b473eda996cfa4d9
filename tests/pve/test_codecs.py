"""Property strings, VM configurations and args: what is not changed stays byte for byte."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.pve.args import Args, ArgsError
from provision.pve.property_string import PropertyString, PropertyStringError, parse, render
from provision.pve.vm_config import VmConfigFile, hostpci_slots

CONFIG = """#eight GPUs%2C one VM
#second line
args: -fw_cfg 'name=opt/x,string=a b'
bios: ovmf
boot: order=scsi0
cores: 64
hostpci0: mapping=rtx6000,pcie=1
hostpci1: mapping=rtx6000,pcie=1
machine: q35
memory: 524288
this is not a line

[PENDING]
delete: hostpci9
hostpci2: mapping=rtx6000,pcie=1

[before-upgrade]
hostpci0: 0000:41:00.0
memory: 4096
snaptime: 1700000000

[special:cloudinit]
name: x
"""


@given(st.text())
def test_roundtrip_of_vm_configurations(text: str) -> None:
    assert VmConfigFile.parse(text).render() == text


LINE = st.sampled_from(["cores: 4", "memory: 512 ", "#note", "", "[PENDING]", "[snap]", "rubbish", "args: -x", "\t"])


@given(st.lists(LINE), st.booleans(), st.sampled_from(["args", "cores", "zz", "hostpci0"]))
def test_set_and_delete_touch_one_key(lines: list[str], ends: bool, key: str) -> None:
    file = VmConfigFile.parse("\n".join(lines) + ("\n" if ends else ""))
    changed = VmConfigFile.parse(file.set(key, "new").render())
    assert changed.live == {**file.live, key: "new"}
    assert changed.sections[1:] == file.sections[1:]
    assert {**changed.delete(key).live} == {k: v for k, v in file.live.items() if k != key}
    if key not in file.live and (ends or not lines):
        assert changed.delete(key).render() == file.render()


def test_sections() -> None:
    file = VmConfigFile.parse(CONFIG)
    assert file.live["hostpci1"] == "mapping=rtx6000,pcie=1"
    assert file.description == "eight GPUs, one VM\nsecond line"
    assert file.pending == {"hostpci2": "mapping=rtx6000,pcie=1"}
    assert file.pending_delete == ("hostpci9",)
    assert file.snapshots["before-upgrade"]["memory"] == "4096"
    assert file.sections[0].damaged == ("this is not a line",)
    assert [section.kind for section in file.sections] == ["live", "pending", "snapshot", "special"]
    assert file.lock is None


def test_a_new_option_goes_to_the_live_section_in_order() -> None:
    text = VmConfigFile.parse(CONFIG).set("cpu", "host").render()
    assert text == CONFIG.replace("cores: 64\n", "cores: 64\ncpu: host\n")
    text = VmConfigFile.parse(CONFIG).set("vga", "none").render()
    assert text == CONFIG.replace("memory: 524288\n", "memory: 524288\nvga: none\n")


def test_the_last_of_a_doubled_option_counts() -> None:
    file = VmConfigFile.parse("cores: 1\nmemory: 5\ncores: 2\n")
    assert file.live["cores"] == "2"
    assert file.set("cores", "3").render() == "cores: 1\nmemory: 5\ncores: 3\n"
    assert file.delete("cores").render() == "memory: 5\n"


def test_set_without_final_line_feed() -> None:
    assert VmConfigFile.parse("cores: 1").set("memory", "5").render() == "cores: 1\nmemory: 5\n"
    assert VmConfigFile.parse("cores: 1").set("cores", "2").render() == "cores: 2"
    assert VmConfigFile.parse("").set("cores", "2").render() == "cores: 2\n"
    assert VmConfigFile.parse("#a\n").set("cores", "2").render() == "#a\ncores: 2\n"


@pytest.mark.parametrize(
    ("key", "value"), [("args", "a\nb"), ("args", ""), ("args", " "), ("A", "1"), ("a: b\nc", "1")]
)
def test_what_cannot_stand_in_a_line_is_refused(key: str, value: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        VmConfigFile.parse(CONFIG).set(key, value)


def test_description_option() -> None:
    assert VmConfigFile.parse("description: a%0Ab\n").description == "a\nb"
    assert VmConfigFile.parse("cores: 1\n").description is None


def test_blank_value_as_proxmox_reads_it() -> None:
    assert VmConfigFile.parse("boot:  \n").live == {"boot": " "}


def test_hostpci_slots() -> None:
    slots = hostpci_slots(
        {
            "hostpci10": "mapping=b,pcie=1",
            "hostpci2": "0000:41:00;0000:42:00.0,rombar=0",
            "hostpci16": "mapping=c",
            "hostpci03": "mapping=c",
            "hostpci4": "host=1,host=2",
            "cores": "2",
        }
    )
    assert [(slot.index, slot.mapping, slot.host, slot.options) for slot in slots] == [
        (2, None, "0000:41:00;0000:42:00.0", {"rombar": "0"}),
        (10, "b", None, {"pcie": "1"}),
    ]


@given(st.text(), st.sampled_from([None, "host"]))
def test_roundtrip_of_property_strings(text: str, default: str | None) -> None:
    assert PropertyString.parse(text, default).render() == text


KEYS = st.from_regex(r"[a-z][a-z-]{0,6}", fullmatch=True)
VALUES = st.text(st.characters(blacklist_characters=",\n\r=", blacklist_categories=("Cs",)), min_size=1).filter(
    str.strip
)


@given(st.dictionaries(KEYS, VALUES), KEYS, VALUES)
def test_property_string_set_and_remove(values: dict[str, str], key: str, value: str) -> None:
    text = PropertyString.parse(render(values))
    assert text.values == values
    assert text.set(key, value).values == {**values, key: value}
    assert text.remove(key).values == {k: v for k, v in values.items() if k != key}


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("0000:41:00.0,pcie=1", "host", {"host": "0000:41:00.0", "pcie": "1"}),
        ("pcie=1,0000:41:00.0", "host", {"pcie": "1", "host": "0000:41:00.0"}),
        ("a=1,,b=2,", None, {"a": "1", "b": "2"}),
        ("a=b=c", None, {"a": "b=c"}),
        ("", None, {}),
    ],
)
def test_property_string_values(text: str, default: str | None, expected: dict[str, str]) -> None:
    assert parse(text, default) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1,a=2", "duplicate key in comma-separated list property: a"),
        ("rubbish", "value without key, but schema does not define a default key"),
        ("a=", "missing key in comma-separated list property"),
        ("=a", "missing key in comma-separated list property"),
    ],
)
def test_property_string_errors(text: str, message: str) -> None:
    with pytest.raises(PropertyStringError, match=message):
        parse(text)


def test_default_key_keeps_its_form() -> None:
    text = PropertyString.parse("0000:41:00.0,pcie=1", "host")
    assert text.set("host", "0000:42:00.0").render() == "0000:42:00.0,pcie=1"
    assert text.remove("host").set("mapping", "gpu-0").render() == "pcie=1,mapping=gpu-0"
    assert render({"pcie": "1", "host": "x"}, "host") == "x,pcie=1"
    with pytest.raises(PropertyStringError):
        render({"a": "1,2"})


WORDS = st.lists(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1))


@given(WORDS, WORDS)
def test_args_add_and_remove(old: list[str], new: list[str]) -> None:
    text = " ".join(map(shlex.quote, old))
    args = Args.parse(text)
    assert args.render() == text
    assert args.values == tuple(old)
    added = Args.parse(args.add(*new).render())
    assert added.values == (*old, *new)
    if new and not any(tuple(old[n : n + len(new)]) == tuple(new) for n in range(len(old))):
        shorter = added.remove(*new)
        assert Args.parse(shorter.render()).values == shorter.values


@given(st.text())
def test_roundtrip_of_args_or_refusal(text: str) -> None:
    try:
        assert Args.parse(text).render() == text
    except ArgsError:
        with pytest.raises(ValueError, match="No"):
            shlex.split(text)


def test_args_words() -> None:
    args = Args.parse("-fw_cfg 'name=opt/x,string=a b'  -set device.hostpci0.x-nv-gpudirect-clique=0")
    assert args.values[1] == "name=opt/x,string=a b"
    assert args.remove("-set", "device.hostpci0.x-nv-gpudirect-clique=0").render() == "-fw_cfg 'name=opt/x,string=a b'"
    assert args.remove("-fw_cfg", "name=opt/x,string=a b").render() == "-set device.hostpci0.x-nv-gpudirect-clique=0"
    with pytest.raises(ArgsError):
        Args.parse("-a 'b")
