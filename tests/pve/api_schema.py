"""Validate a request by what Proxmox publishes of its API: method, path, parameters, types, formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

CALLS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data/pve-api/calls.json").read_text(encoding="utf-8")
)
METHODS: Final = {"get": "GET", "create": "POST", "set": "PUT", "delete": "DELETE"}

CONFIG_ID: Final = r"[A-Za-z][\w-]+"
STORAGE_ID: Final = r"[A-Za-z][\w.-]*[A-Za-z0-9]"
FORMATS: Final[dict[str, str]] = {
    "CIDR": r"[0-9a-fA-F.:]+/\d{1,3}",
    "address-list": r"[0-9a-fA-F.:]+([,; ]+[0-9a-fA-F.:]+)*",
    "disk-size": r"\d+(\.\d+)?[KMGT]?",
    "dns-name": r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*",
    "mac-addr": r"([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}",
    "pve-bridge-id": r"[-_.\w]+",
    "pve-configid": CONFIG_ID,
    "pve-configid-list": rf"{CONFIG_ID}([,; ]+{CONFIG_ID})*",
    "pve-cpuset": r"\d+(-\d+)?(,\d+(-\d+)?)*",
    "pve-node": r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?",
    "pve-qm-bootdisk": r"(ide|sata|scsi|virtio)\d+",
    "pve-storage-id": STORAGE_ID,
    "pve-tag-list": r"[A-Za-z0-9_][A-Za-z0-9_+.-]*([,; ]+[A-Za-z0-9_][A-Za-z0-9_+.-]*)*",
    "pve-vmid": r"[1-9]\d{2,8}",
    "pve-volume-id": rf"{STORAGE_ID}:.+",
    "pve-volume-id-or-absolute-path": rf"/.+|{STORAGE_ID}:.+",
    "pve-volume-id-or-qm-path": rf"none|cdrom|/.+|{STORAGE_ID}:.+",
    "urlencoded": r"[-A-Za-z0-9_.~!*'()%]*",
}
"""Formats that are published by name alone; one that is not here fails where a request uses it."""
BY_NAME_WITH_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "pve-qm-boot": ("legacy",),
    "pve-qm-hostpci": ("host",),
    "pve-qm-ipconfig": ("ip",),
    "pve-qm-smbios1": (),
    "pve-startup-order": ("order",),
    "pve-vm-cpu-conf": ("cputype",),
}
"""Property strings whose keys are known and whose values are not; the keys that may stand without their name."""


def problems(verb: str, path: str, params: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a request, nothing for one that the schema allows."""
    found = _call(METHODS[verb], path)
    if found is None:
        return [f"{METHODS[verb]} {path} is not in the schema"]
    call, given = found
    properties = call["properties"]
    wrong = [f"{name} is missing" for name, rule in properties.items() if _is_missing(name, rule, params, given)]
    for name, value in {**given, **params}.items():
        rule = properties.get(name) or properties.get(re.sub(r"\d+$", "[n]", name))
        if rule is None:
            wrong += [f"{name} is not in the schema"] if not call["additionalProperties"] else []
        else:
            wrong += [f"{name}: {text}" for text in _value(rule, value)]
            needed = rule.get("requires")
            wrong += [f"{name} needs {needed}"] if isinstance(needed, str) and needed not in params else []
    return wrong


def template(verb: str, path: str) -> str:
    """Return a request's call as the schema names it."""
    return next((name for name in CALLS if _match(name, METHODS[verb], path) is not None), f"{METHODS[verb]} {path}")


def _call(method: str, path: str) -> tuple[Any, dict[str, str]] | None:
    for name, call in CALLS.items():
        match = _match(name, method, path)
        if match is not None:
            return call, match.groupdict()
    return None


def _match(name: str, method: str, path: str) -> re.Match[str] | None:
    wanted, _, pattern = name.partition(" ")
    return re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern), path) if wanted == method else None


def _is_missing(name: str, rule: Any, params: Mapping[str, Any], given: Mapping[str, str]) -> bool:
    return not rule.get("optional") and name not in params and name not in given


def _value(rule: Mapping[str, Any], value: Any) -> Iterator[str]:
    if rule.get("type") == "array":
        # A form with one value for a list looks like a scalar; an empty list vanishes from it.
        if not value:
            yield f"{value!r} is no list"
        for one in [value] if isinstance(value, str) else value:
            yield from _value(rule["items"], one)
        return
    if isinstance(value, (list, tuple)):
        yield f"{value!r} is a list"
        return
    text = str(int(value)) if isinstance(value, bool) else str(value)
    yield from _scalar(rule, text)
    if "format" in rule:
        yield from _format(rule["format"], text, rule.get("keys", ()))


_TYPES: Final = {"integer": r"[+-]?\d+", "number": r"[+-]?\d+(\.\d+)?", "boolean": r"0|1|on|off|yes|no|true|false"}


def _scalar(rule: Mapping[str, Any], text: str) -> Iterator[str]:
    kind = rule.get("type", "string")
    if kind in _TYPES and re.fullmatch(_TYPES[kind], text) is None:
        yield f"{text!r} is no {kind}"
        return
    if "enum" in rule and text not in rule["enum"]:
        yield f"{text!r} is none of {rule['enum']}"
    if "pattern" in rule and re.fullmatch(_pattern(rule["pattern"]), text) is None:
        yield f"{text!r} is not as {rule['pattern']}"
    if kind in ("integer", "number"):
        if float(text) < float(rule.get("minimum", text)) or float(text) > float(rule.get("maximum", text)):
            yield f"{text} is out of range"
    elif len(text) > int(rule.get("maxLength", len(text))):
        yield f"{text!r} is too long"


def _pattern(text: str) -> str:
    """Return a pattern of Perl as one of Python: ``(?^:...)`` resets the flags, of which there are none."""
    return re.sub(r"\(\?\^:", "(?:", text)


def _format(rule: str | Mapping[str, Any], text: str, keys: tuple[str, ...]) -> Iterator[str]:
    if isinstance(rule, str):
        yield from _named(rule, text, keys)
    else:
        yield from _property_string(rule, text)


def _named(name: str, text: str, keys: tuple[str, ...]) -> Iterator[str]:
    if name in BY_NAME_WITH_KEYS:
        for key, value in _parts(text, BY_NAME_WITH_KEYS[name]):
            if key not in keys or not value:
                yield f"{key!r} is no part of {name}"
    elif name not in FORMATS:
        yield f"the format {name} is not known here"
    elif re.fullmatch(FORMATS[name], text) is None:
        yield f"{text!r} is no {name}"


def _property_string(rule: Mapping[str, Any], text: str) -> Iterator[str]:
    defaults = tuple(key for key, one in rule.items() if one.get("default_key"))
    seen: set[str] = set()
    for key, value in _parts(text, defaults):
        one = rule.get(key)
        if one is None:
            yield f"{key!r} is no part of it"
            continue
        if "keyAlias" in one:
            seen.add(one["keyAlias"])
        name = one.get("alias", key)
        if name in seen:
            yield f"{key!r} is there twice"
        seen.add(name)
        yield from (f"{key}: {wrong}" for wrong in _value(rule[name], value))
    yield from (
        f"{key} is missing"
        for key, one in rule.items()
        if "alias" not in one and not one.get("optional") and key not in seen
    )


def _parts(text: str, defaults: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    # A comma at the end is accepted, as recorded.
    for number, part in enumerate(text.removesuffix(",").split(",")):
        key, sign, value = part.partition("=")
        if sign:
            yield key, value
        else:
            yield (defaults[0] if defaults and number == 0 else part), part
