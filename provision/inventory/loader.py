"""The inventory file: found, read, checked; all its problems at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from provision.envelope import KINDS
from provision.errors import InventoryError
from provision.inventory.models import Inventory
from provision.inventory.problems import describe, show_path
from provision.inventory.yaml_text import Document, YamlProblem, read_yaml

NAMES = ("pvectl.yaml", "/etc/pvectl/inventory.yaml")
"""Where an inventory is looked for after ``-i`` and PVECTL_INVENTORY; the first is below the current folder."""

_START = "write one with `pvectl init HOST -o pvectl.yaml`"


def find_inventory(explicit: Path | None, env: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the inventory to use, or ``None`` where there is none.

    An explicit path and PVECTL_INVENTORY are returned as they are, so that :func:`load`
    says what is wrong with them; a wrong name must not fall through to another file.
    """
    if explicit is not None:
        return explicit
    if env.get("PVECTL_INVENTORY"):
        return Path(env["PVECTL_INVENTORY"])
    return next((path for path in (cwd / name for name in NAMES) if path.exists()), None)


def load(path: Path) -> Inventory:
    """Read and check the inventory at ``path``.

    Relative paths in it are taken from its own folder and ``~`` is the home folder.  Raises
    :class:`InventoryError`; its ``problems`` hold one line each, ``file:line: path: what is wrong``.
    """
    return parse(_read(path), str(path), folder=path.absolute().parent)


def parse(text: str, source: str, *, folder: Path | None = None) -> Inventory:
    """Check the inventory in ``text``; ``source`` names it in messages.  Raises :class:`InventoryError`."""
    try:
        document = read_yaml(text)
    except YamlProblem as problem:
        raise _refuse(source, [f"{source}:{problem.line}: {problem.text}"]) from None
    _check_shape(document, source)
    repeated = [
        f"{source}:{line}: {show_path(path)}: this key stands here for the second time (first in line {first})"
        for line, path, first in document.repeated
    ]
    wish = {k: v for k, v in document.data.items() if not (k == "schema" or str(k).startswith("x-"))}
    try:
        inventory = Inventory.model_validate(wish, context={"folder": folder})
    except ValidationError as error:
        raise _refuse(source, sorted(repeated + describe(error, document, source), key=_by_line)) from None
    if repeated:
        raise _refuse(source, repeated)
    return inventory


def _by_line(problem: str) -> int:
    digits = next((part for part in problem.split(":") if part.isdigit()), "0")
    return int(digits)


def _refuse(source: str, problems: list[str]) -> InventoryError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InventoryError(
        f"Unable to use the inventory {source}: {count}",
        "correct these lines; `pvectl schema inventory` shows every key",
        tuple(problems),
    )


def _check_shape(document: Document, source: str) -> None:
    """Raise unless the document is a mapping of a schema that we know."""
    data: Any = document.data
    if data is None:
        raise InventoryError(f"Unable to use the inventory {source}: it is empty", _START)
    if not isinstance(data, dict):
        raise InventoryError(
            f"Unable to use the inventory {source}: it holds a {_kind(data)}, not a mapping that begins with hosts:",
            _START,
        )
    schema = data.get("schema")
    if schema is None:
        return
    line = document.line_of(("schema",))
    kind, _, number = str(schema).partition("/")
    if kind != "pvectl.inventory" or not number.isdigit():
        raise _refuse(source, [f"{source}:{line}: schema: this is not a pvectl inventory; allowed: {_schema_id()}"])
    if int(number) > KINDS["inventory"]:
        raise InventoryError(
            f"Unable to use the inventory {source}: its schema {schema} is newer than {_schema_id()}",
            "upgrade pvectl on this machine",
        )


def _schema_id() -> str:
    return f"pvectl.inventory/{KINDS['inventory']}"


def _kind(data: Any) -> str:
    return "list" if isinstance(data, list) else "single value"


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InventoryError(f"Unable to read the inventory {path}: there is no such file", _START) from None
    except IsADirectoryError:
        raise InventoryError(
            f"Unable to read the inventory {path}: it is a folder", f"name a file, for example {path}/pvectl.yaml"
        ) from None
    except OSError as error:
        raise InventoryError(
            f"Unable to read the inventory {path}: {error.strerror}", "check the path and its permissions"
        ) from None
    if b"\0" in raw:
        raise InventoryError(f"Unable to read the inventory {path}: it is not a text file", _START)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InventoryError(
            f"Unable to read the inventory {path}: line {line} is not UTF-8", "save the file in UTF-8"
        ) from None
