"""pydantic's errors as lines for a person: ``file:line: path: what is wrong; allowed: ...``."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Hashable, Iterable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from provision.inventory.models import Inventory
from provision.inventory.yaml_text import Document

_SECRET = re.compile(r"secret|passw|token", re.IGNORECASE)
_TEXT = "text is expected; put the value in quotes"
_FIXED: Mapping[str, str] = {
    "string_type": _TEXT,
    "int_type": "a whole number is expected",
    "int_parsing": "a whole number is expected",
    "int_from_float": "a whole number is expected",
    "float_type": "a number is expected",
    "float_parsing": "a number is expected",
    "bool_type": "true or false is expected",
    "bool_parsing": "true or false is expected",
    "model_type": "a mapping of keys is expected",
    "model_attributes_type": "a mapping of keys is expected",
    "dict_type": "a mapping of keys is expected",
    "tuple_type": "a list is expected",
    "missing": "this key is missing",
    "too_short": "at least one is needed",
    "string_too_short": "it is empty",
    "string_pattern_mismatch": "begin with a letter, then letters, digits, - and _, two characters at least",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
}


def show_path(path: Iterable[Hashable]) -> str:
    """Return ``hosts.pve1.vms.100.gpus.bdf[0]`` for the parts of a path.

    What stands below a key such as ``secret`` is not shown: ``secret: {hunter2}`` has the secret as its key.
    """
    text = ""
    is_secret = False
    for part in path:
        if is_secret and part not in ("env", "file"):
            return f"{text.lstrip('.')}.(a key)"
        is_secret = is_secret or _SECRET.search(str(part)) is not None
        is_index = isinstance(part, int) and text.endswith((".bdf", ".slot", ".gpus"))
        text += f"[{part}]" if is_index else f".{part}"
    return text.lstrip(".") or "the whole file"


def describe(error: ValidationError, document: Document, source: str) -> list[str]:
    """Return one line for each problem of ``error``, in the order of the file."""
    lines = []
    for item in error.errors(include_url=False, include_context=True, include_input=True):
        loc = tuple(item["loc"])
        is_key = loc[-1:] == ("[key]",)
        path = _in_document(loc[:-1] if is_key else loc, document)
        line = document.line_of(path, key=is_key or item["type"] in ("extra_forbidden", "value_error"))
        lines.append(f"{source}:{line}: {show_path(path)}: {_what(item, loc)}")
    return lines


def _in_document(loc: tuple[Hashable, ...], document: Document) -> tuple[Hashable, ...]:
    """Return ``loc`` with the parts that pydantic adds left out, the first missing part kept."""
    path: tuple[Hashable, ...] = ()
    for index, part in enumerate(loc):
        if (*path, part) in document.places:
            path = (*path, part)
        elif index == len(loc) - 1:
            # A list that stands for {bdf: [...]} has no key of that name in the file.
            path = (*path, part)
    return path


def _what(item: Any, loc: tuple[Hashable, ...]) -> str:
    kind: str = item["type"]
    context: dict[str, Any] = item.get("ctx", {})
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{_given(item, loc)}is out of range; allowed: {words} {context[name]:g}"
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == "extra_forbidden":
        return _unknown_key(loc)
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"{_given(item, loc)}is not allowed; allowed: {_listed(context['expected'])}"
    return str(item["msg"])


def _given(item: Any, loc: tuple[Hashable, ...]) -> str:
    """Return the value with a blank, or nothing where it may be a secret or is long."""
    value = item.get("input")
    is_plain = isinstance(value, (str, int, float)) and len(str(value)) <= 40
    if not is_plain or any(_SECRET.search(str(part)) for part in loc):
        return "this value "
    return f"{value!r} "


def _listed(expected: str) -> str:
    return ", ".join(re.findall(r"'([^']*)'", expected))


def _unknown_key(loc: tuple[Hashable, ...]) -> str:
    name = str(loc[-1])
    allowed = _keys_at(loc[:-1])
    near = difflib.get_close_matches(name, allowed, n=1)
    if not near and _SECRET.search(name):
        advice = "; a secret is given by api.secret: {env: VARIABLE} or {file: PATH}, never in the inventory"
    else:
        advice = f"; did you mean {near[0]}?" if near else ""
    return f"there is no such key{advice}; allowed: {', '.join(allowed)}"


def _keys_at(loc: tuple[Hashable, ...]) -> list[str]:
    """Return the keys of the model at ``loc``, as they are written in the file."""
    kind: Any = Inventory
    for part in loc:
        kind = _below(kind, part)
    model = _model(kind)
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _below(kind: Any, part: Hashable) -> Any:
    model = _model(kind)
    if model is not None:
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                return field.annotation
        return None
    args = get_args(kind)
    return args[-1] if get_origin(kind) is dict else None


def _model(kind: Any) -> type[BaseModel] | None:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    if get_origin(kind) is Annotated:
        return _model(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return next((m for m in map(_model, get_args(kind)) if m is not None), None)
    return None
