"""Property strings: ``key=value,key=value`` in one line, as Proxmox writes them everywhere.

A value without a key belongs to the default key of the format (``host`` of ``hostpciN``,
``cputype`` of ``cpu``).  The rules and the wording of refusals are those of
``parse_property_string`` in pve-common (src/PVE/JSONSchema.pm).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class PropertyStringError(ValueError):
    """The text is no property string; the message is Proxmox' own."""


@dataclass(frozen=True)
class PropertyString:
    """A property string that can be changed in one place and written back otherwise as it was."""

    parts: tuple[str, ...]
    """The text between commas, empty parts too."""
    default_key: str | None = None

    @classmethod
    def parse(cls, text: str, default_key: str | None = None) -> PropertyString:
        """Read any text.  What is wrong with it shows when :attr:`values` is asked for."""
        return cls(tuple(text.split(",")), default_key)

    def render(self) -> str:
        return ",".join(self.parts)

    @property
    def values(self) -> dict[str, str]:
        """Keys and values in the order of the text.  Raises :class:`PropertyStringError`."""
        found: dict[str, str] = {}
        for part in self.parts:
            if not part.strip():
                continue
            key, value = self._split(part)
            if key in found:
                raise PropertyStringError(f"duplicate key in comma-separated list property: {key}")
            found[key] = value
        return found

    def set(self, key: str, value: str) -> PropertyString:
        """Return the string with ``key`` at ``value``: in its place, or added at the end."""
        check_value(key, value)
        keys = [self._key_of(part) for part in self.parts]
        if key in keys:
            at = keys.index(key)
            bare = "=" not in self.parts[at] and key == self.default_key
            new = value if bare and "=" not in value else f"{key}={value}"
            return PropertyString((*self.parts[:at], new, *self.parts[at + 1 :]), self.default_key)
        kept = self.parts if any(part.strip() for part in self.parts) else ()
        return PropertyString((*kept, f"{key}={value}"), self.default_key)

    def remove(self, key: str) -> PropertyString:
        """Return the string without ``key``."""
        kept = tuple(part for part in self.parts if self._key_of(part) != key)
        return PropertyString(kept or ("",), self.default_key)

    def _split(self, part: str) -> tuple[str, str]:
        key, sign, value = part.partition("=")
        if not sign:
            if self.default_key is None:
                raise PropertyStringError("value without key, but schema does not define a default key")
            return self.default_key, part
        if not key or not value:
            raise PropertyStringError("missing key in comma-separated list property")
        return key, value

    def _key_of(self, part: str) -> str | None:
        try:
            return self._split(part)[0] if part.strip() else None
        except PropertyStringError:
            return None


def check_value(key: str, value: str) -> None:
    """Raise :class:`PropertyStringError` where ``value`` cannot stand in a property string."""
    if not value or any(character in value for character in ",\n\r"):
        raise PropertyStringError(f"value of '{key}' is empty or has a comma or a line feed: {value!r}")


def parse(text: str, default_key: str | None = None) -> dict[str, str]:
    """Return keys and values of ``text`` in order.  Raises :class:`PropertyStringError`."""
    return PropertyString.parse(text, default_key).values


def render(values: Mapping[str, str], default_key: str | None = None) -> str:
    """Return ``values`` as one line in their order; the default key's value goes first, without its key."""
    for key, value in values.items():
        check_value(key, value)
    first = [values[default_key]] if default_key is not None and default_key in values else []
    return ",".join([*first, *(f"{key}={value}" for key, value in values.items() if key != default_key)])
