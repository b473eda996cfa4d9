"""Texts of which a bundle keeps only what doctor and plan read, written down again line by line.

Each function takes a text and the table of names and returns the text for the bundle.  Lines keep their numbers
wherever a finding may cite them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from provision.capture.share_names import Pseudonyms
from provision.capture.share_scrub import plain_uuid, scrub

Rewrite = Callable[[str, Pseudonyms], str]

_OWN_COMMENT = "# pvectl:"


def plain(text: str, names: Pseudonyms) -> str:
    """A text without comments of its own."""
    return scrub(text, names)


def commented(text: str, names: Pseudonyms) -> str:
    """A settings file: what is said in comments goes, settings stay."""
    return scrub("".join(_bare(line, names) for line in text.splitlines(keepends=True)), names)


def _bare(line: str, names: Pseudonyms) -> str:
    """A whole line of comment, or one behind a setting without quotes after it."""
    text = line.rstrip("\r\n")
    ending = line[len(text) :]
    if text.lstrip().startswith(_OWN_COMMENT):
        return line
    if text.lstrip().startswith(("#", ";")):
        names.remove("comment", int(len(text.strip()) > 1))
        return "#" + ending
    head, mark, rest = text.rpartition(" #")
    if mark and not set(rest) & set("\"'"):
        names.remove("comment")
        return f"{head} #{ending}"
    return line


def kept_lines(*patterns: str) -> Rewrite:
    """Keep the lines that one of the patterns matches from their start, others become empty."""
    search = re.compile("|".join(patterns))

    def rewrite(text: str, names: Pseudonyms) -> str:
        lines = [line if search.match(line) else "" for line in text.split("\n")]
        return scrub("\n".join(lines).rstrip("\n") + "\n", names)

    return rewrite


def first_words(text: str, names: Pseudonyms) -> str:
    """``/proc/modules``: the names alone."""
    return scrub("".join(f"{line.split()[0]} 0 0 - Live 0x0\n" for line in text.splitlines() if line.strip()), names)


def first_block(text: str, names: Pseudonyms) -> str:
    """``/proc/cpuinfo``: one processor stands for all."""
    wanted = ("processor", "vendor_id", "cpu family", "model", "stepping", "flags", "address sizes")
    lines = text.split("\n\n", maxsplit=1)[0].splitlines()
    return scrub(
        "".join(
            f"{line}\n"
            for line in lines
            if line.partition("\t")[0].strip() in wanted or line.partition(":")[0].strip() in wanted
        ),
        names,
    )


def nothing(_: str, names: Pseudonyms) -> str:
    """Only whether the file is there counts."""
    names.remove("content of no use")
    return ""


def hostname(text: str, names: Pseudonyms) -> str:
    word = text.strip()
    head, dot, _ = word.partition(".")
    names.name("host name", head)
    return text.replace(word, scrub(word, names) if dot else names.name("host name", word)) if word else text


def machine_id(text: str, names: Pseudonyms) -> str:
    word = text.strip()
    return text.replace(word, plain_uuid(word, names)) if word else text


def efi_entries(text: str, names: Pseudonyms) -> str:
    """``efibootmgr -v``: entries without what firmware says of disks and cards in their labels."""
    return scrub("".join(_efi_entry(line, names) + "\n" for line in text.splitlines()), names)


_LABELS = re.compile(
    r"(?:proxmox|debian|ubuntu|Linux Boot Manager|systemd-boot|Windows Boot Manager|UEFI OS|UEFI:?|rescue|GRUB|"
    r"Proxmox Backup Server|.*\b(?:PXE|HTTP|Network)\b.*)",
    re.IGNORECASE,
)


def _efi_entry(line: str, names: Pseudonyms) -> str:
    match = re.match(r"(Boot[0-9A-Fa-f]{4}[* ] )(.*?)(\t.*)?$", line)
    if match is None:
        head = re.match(r"(?:BootCurrent|BootNext|BootOrder|Timeout): *[\w, ]*$", line)
        return line if head else ""
    label = match[2]
    if _LABELS.fullmatch(label) is None:
        label = names.of("label", label)
    elif re.search("PXE|HTTP|Network", label, re.IGNORECASE):
        label = re.search(r"PXE|HTTP|Network", label, re.IGNORECASE)[0]  # type: ignore[index]
    return match[1] + label + _efi_path(match[3] or "")


def _efi_path(text: str) -> str:
    """What names the partition, the loader's file and the network stays."""
    kept = re.findall(
        r"HD\(\d+,GPT,[0-9a-fA-F-]{36}[^)]*\)|/?File\(\\EFI\\(?:proxmox|systemd|BOOT|debian|ubuntu|Microsoft)\\[\w.\\]*\)|"
        r"\\EFI\\(?:proxmox|systemd|BOOT|debian|ubuntu|Microsoft)\\[\w.\\]+\.efi|MAC\([^)]*\)|IPv[46]\(|PciRoot\(\w+\)",
        text,
        re.IGNORECASE,
    )
    return (
        "\t"
        + "/".join(part.lstrip("/").replace("IPv4(", "IPv4(0.0.0.0)").replace("IPv6(", "IPv6(::)") for part in kept)
        if kept
        else ""
    )
