"""Property strings and their checks, with the error texts of Proxmox' own parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

NOT_IN_SCHEMA = "property is not defined in schema and the schema does not allow additional properties"
MISSING = "property is missing and it is not optional"

Check = Callable[[str], str | None]
"""Returns what is wrong with a value, ``None`` where nothing is."""

BOOLEANS = {"1": "1", "yes": "1", "on": "1", "true": "1", "0": "0", "no": "0", "off": "0", "false": "0"}


class FormatError(Exception):
    """A property string that Proxmox refuses; the text is what it says after ``invalid format - ``."""


def pattern(regex: str) -> Check:
    compiled = re.compile(regex)
    return lambda value: None if compiled.fullmatch(value) else "value does not match the regex pattern"


def one_of(*choices: str) -> Check:
    listed = ", ".join(choices)
    return lambda value: (
        None if value in choices else f"value '{value}' does not have a value in the enumeration '{listed}'"
    )


def integer(minimum: int | None = None, maximum: int | None = None) -> Check:
    def check(value: str) -> str | None:
        if not re.fullmatch(r"[+-]?\d+", value):
            return f"type check ('integer') failed - got '{value}'"
        if minimum is not None and int(value) < minimum:
            return f"value must have a minimum value of {minimum}"
        if maximum is not None and int(value) > maximum:
            return f"value must have a maximum value of {maximum}"
        return None

    return check


def boolean(value: str) -> str | None:
    return None if value in BOOLEANS else f"type check ('boolean') failed - got '{value}'"


def strict_boolean(value: str) -> str | None:
    """A boolean parameter of its own: only 0 and 1 pass; inside property strings words are read too."""
    return None if value in ("0", "1") else f"type check ('boolean') failed - got '{value}'"


def anything(value: str) -> str | None:  # noqa: ARG001 - one signature for all checks
    return None


def config_id(value: str) -> str | None:
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]+", value, re.ASCII):
        return None
    return f"invalid format - invalid configuration ID '{value}'\n"


def node_name(value: str) -> str | None:
    if re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?", value, re.ASCII):
        return None
    return "invalid format - value does not look like a valid node name\n"


def short_text(limit: int) -> Check:
    return lambda value: f"value may only be {limit} characters long" if len(value) > limit else None


@dataclass(frozen=True)
class Format:
    """The keys of one property string; ``required`` in the order Proxmox happens to report them."""

    keys: dict[str, Check]
    required: tuple[str, ...] = ()
    default_key: str | None = None
    booleans: frozenset[str] = field(default_factory=frozenset)


def split(text: str, default_key: str | None) -> dict[str, str]:
    """Split ``key=value,...``.  Raises :class:`FormatError` with Proxmox' text."""
    values: dict[str, str] = {}
    for part in text.split(","):
        if part == "":
            continue
        match = re.fullmatch(r"([^=]+)=(.+)", part)
        if match is not None:
            key, value = match[1], match[2]
            if key in values:
                raise FormatError(f"duplicate key in comma-separated list property: {key}\n")
            values[key] = value
        elif not re.fullmatch(r"[^=\n]+", part):
            raise FormatError("missing key in comma-separated list property\n")
        elif default_key is None:
            raise FormatError("value without key, but schema does not define a default key\n")
        elif default_key in values:
            raise FormatError(f"duplicate key in comma-separated list property: {default_key}\n")
        else:
            values[default_key] = part
    return values


def parse(text: str, form: Format, name: str) -> dict[str, str]:
    """Split and check a property string; ``name`` is the option's name in the error text."""
    values = split(text, form.default_key)
    problems = [f"{name}.{key}: {MISSING}\n" for key in form.required if key not in values]
    for key, value in values.items():
        check = form.keys.get(key)
        problem = NOT_IN_SCHEMA if check is None else check(value)
        if problem is not None:
            problems.append(f"{name}.{key}: {problem}\n")
    if problems:
        raise FormatError("format error\n" + "".join(problems))
    return values


HEX4 = "[0-9A-Fa-f]{4}"
PATH = r"[a-f0-9]{4,}:[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?"
RAW = r"(?:[a-f0-9]{4,}:)?[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?"
OVERRIDE = pattern(r"0x[0-9a-fA-F]{4}")

MAP_ENTRY = Format(
    keys={
        "node": node_name,
        "id": pattern(f"{HEX4}:{HEX4}"),
        "path": pattern(f"(?:{PATH};)*{PATH}"),
        "subsystem-id": pattern(f"{HEX4}:{HEX4}"),
        "iommugroup": integer(),
        "description": short_text(4096),
    },
    required=("path", "node", "id"),
)

HOSTPCI = Format(
    keys={
        "host": pattern(f"{RAW}(?:;{RAW})*"),
        "mapping": config_id,
        "rombar": boolean,
        "romfile": pattern(r"[^,;]+"),
        "pcie": boolean,
        "x-vga": boolean,
        "legacy-igd": boolean,
        "mdev": pattern(r"[^/.:]+"),
        "vendor-id": OVERRIDE,
        "device-id": OVERRIDE,
        "sub-vendor-id": OVERRIDE,
        "sub-device-id": OVERRIDE,
        "driver": one_of("vfio", "keep"),
    },
    default_key="host",
    booleans=frozenset({"rombar", "pcie", "x-vga", "legacy-igd"}),
)
