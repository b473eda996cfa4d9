"""Every kind is recognized by its content, however it was pasted, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provision.evidence import Unknown
from provision.readers.document import Document
from provision.readers.kinds import KINDS, KindReader, reader_of
from provision.readers.recognize import ENOUGH, documents

PASTES = Path(__file__).parents[1] / "data" / "pastes"
NAMES = sorted(path.stem for path in PASTES.glob("*.txt") if not path.stem.startswith("mixed-"))
ALSO = {"kernel-log": {"pci-listing"}}
"""A kernel's log names IOMMU groups, which are read as a listing too."""

GARBAGE = {
    "empty": "",
    "blank": "\n \n\t\n",
    "prose": "Hello,\n\nmy computer is slow and I do not know why.  Can you help?\n\nRegards\n",
    "program": "import sys\n\ndef main() -> int:\n    return len(sys.argv)\n",
    "html": "<html><body><p>Welcome</p><gpu>no</gpu></body></html>\n",
    "json": '{"name": "x", "items": [{"a": 1}, {"b": [1, 2]}]}\n',
    "yaml": "hosts:\n  alpha:\n    address: root@alpha\n",
    "binary": "\x00\x01\x02\xff\xfe" * 40,
    "numbers": "\n".join(f"{n} {n * n} {n**3}" for n in range(50)),
    "table": "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "log": "2026-01-05 10:00:00 INFO server started\n2026-01-05 10:00:01 WARN slow answer\n",
}

TOLERANT = {("kernel-log", "log"), *(("cmdline", what) for what in GARBAGE)}
"""Readers that take any words, because their recognizers have looked: a kernel takes any word as a parameter."""


def text_of(name: str) -> str:
    return (PASTES / f"{name}.txt").read_text(encoding="utf-8")


def kind_of(name: str) -> KindReader:
    """The longest kind that the file's name begins with."""
    return max((reader for reader in KINDS if name.startswith(reader.kind)), key=lambda reader: len(reader.kind))


def kinds(found: tuple[Document, ...]) -> set[str]:
    return {document.kind for document in found}


@pytest.mark.parametrize("kind", [reader.kind for reader in KINDS])
def test_every_kind_has_an_example(kind: str) -> None:
    assert any(kind_of(name).kind == kind for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_recognized_without_its_name(name: str) -> None:
    found, left = documents("paste", text_of(name))
    assert kinds(found) == {kind_of(name).kind} | ALSO.get(name, set())
    assert left == ()


@pytest.mark.parametrize("name", NAMES)
def test_no_other_recognizer_is_sure(name: str) -> None:
    reader = kind_of(name)
    others = [one for one in KINDS if one.kind != reader.kind and one.recognize(text_of(name)) >= ENOUGH]
    allowed = reader.yields_to | ALSO.get(name, set()) | {one.kind for one in others if reader.kind in one.yields_to}
    assert {one.kind for one in others} <= allowed


def fenced(text: str) -> str:
    return f"Please look at this:\n\n```\n{text}```\nand thank you.\n"


def quoted(text: str) -> str:
    return "Somebody wrote:\n" + "".join(f"> {line}\n" for line in text.splitlines()) + "\nTell me more.\n"


def coded(text: str) -> str:
    return f"Please look at this:\n[CODE]{text}[/CODE]\nand thank you.\n"


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def marked(text: str) -> str:
    return "\ufeff" + text


@pytest.mark.parametrize("pasted", [fenced, quoted, coded, crlf, marked])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_same_however_it_was_pasted(name: str, pasted: Callable[[str], str]) -> None:
    reader = kind_of(name)
    plain = next(document for document in documents("p", text_of(name))[0] if document.kind == reader.kind)
    found = next(document for document in documents("p", pasted(text_of(name)))[0] if document.kind == reader.kind)
    assert type(found.reading) is type(plain.reading)
    assert found.origin == plain.origin
    if pasted in (crlf, marked):
        assert found == plain


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("name", NAMES)
def test_a_part_is_read_or_refused(name: str, share: float) -> None:
    text = text_of(name)
    part = text[: int(len(text) * share)]
    reading = kind_of(name).read(part)
    assert reading is not None
    documents("p", part)


@pytest.mark.parametrize("what", sorted(GARBAGE))
def test_what_is_of_no_kind(what: str) -> None:
    found, left = documents("dmesg.txt", GARBAGE[what])
    assert found == ()
    assert bool(left) == bool(GARBAGE[what].strip())


@pytest.mark.parametrize("what", sorted(GARBAGE))
@pytest.mark.parametrize("kind", [reader.kind for reader in KINDS])
def test_a_reader_refuses_what_is_of_no_kind(kind: str, what: str) -> None:
    reader = reader_of(kind)
    if reader.recognize(GARBAGE[what]) < ENOUGH and (kind, what) not in TOLERANT:
        reading = reader.read(GARBAGE[what])
        assert isinstance(reading, Unknown), reading
        assert reading.unknown


def test_a_file_may_hold_several_pastes() -> None:
    found, left = documents("session.txt", text_of("mixed-session"))
    assert [(document.kind, document.first_line, document.command) for document in found] == [
        ("cmdline", 2, "cat /proc/cmdline"),
        ("modprobe", 4, "cat /etc/modprobe.d/vfio.conf"),
        ("vm-config", 6, "qm config 104"),
    ]
    assert left == ()
    vm = found[2]
    line = vm.reading.line_of("hostpci0")
    assert text_of("mixed-session").splitlines()[vm.line(line) - 1] == "hostpci0: 0000:41:00,pcie=1"


def test_a_forum_post_says_what_was_not_used() -> None:
    found, left = documents("post.txt", text_of("mixed-post"))
    assert kinds(found) == {"qemu-log", "pci-listing"}
    assert [(part.first, part.last) for part in left] == [(1, 1), (4, 4), (9, 9)]
    assert left[0].begins.startswith("Hi all, my VM does not start")


def test_a_quoted_mail_with_fences() -> None:
    found, _ = documents("reply.txt", text_of("mixed-reply"))
    assert [(document.kind, document.first_line) for document in found] == [("grub-default", 5), ("vm-config", 12)]
    grub = found[0].reading
    assert [mention.line for mention in grub.statements] == [1, 2]


def test_a_mail_without_a_line_between_two_kinds() -> None:
    text = text_of("grub-default") + text_of("modprobe")
    assert kinds(documents("p", text)[0]) == {"grub-default", "modprobe"}


def test_a_comment_of_a_file_is_no_prompt_and_no_heading() -> None:
    """``# /boot/grub/grub.cfg.`` and ``# for other systems`` stand in real files and must not cut them."""
    found, left = documents("p", text_of("grub-default"))
    assert [document.first_line for document in found] == [1]
    assert len(found[0].reading.statements) == 5
    assert left == ()


@pytest.mark.parametrize(
    "heading",
    ["==> /etc/modprobe.d/vfio.conf <==", "/etc/modprobe.d/vfio.conf:", "# cat /etc/modprobe.d/vfio.conf",
     "$ sudo cat /etc/modprobe.d/vfio.conf", "[root@alpha ~]# cat /etc/modprobe.d/vfio.conf",
     "cat /etc/modprobe.d/vfio.conf"],
)  # fmt: skip
def test_what_was_typed_above_is_kept(heading: str) -> None:
    found, _ = documents("p", f"{heading}\noptions vfio-pci ids=10de:2bb5\n")
    (document,) = found
    assert "/etc/modprobe.d/vfio.conf" in document.command
    assert document.first_line == 2


def test_a_kind_that_shows_late_is_found() -> None:
    text = "a line of words that says nothing\n" * 5000 + text_of("topo-p2p").split("\n", 1)[1]
    found, _ = documents("p", text)
    assert kinds(found) == {"topo-p2p"}


def test_the_name_decides_only_where_the_content_leaves_a_doubt() -> None:
    doubtful = "quiet one two three four five six\n"
    assert documents("notes.txt", doubtful)[0] == ()
    assert kinds(documents("cmdline.txt", doubtful)[0]) == {"cmdline"}
    assert documents("cmdline.txt", "nothing at all, said somebody\n")[0] == ()


def test_reader_of_names_every_kind() -> None:
    assert all(reader_of(reader.kind) is reader for reader in KINDS)
