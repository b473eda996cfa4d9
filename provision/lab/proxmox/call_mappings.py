"""``/cluster/mapping/pci``: list with checks, one, create, replace, delete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from provision.lab.proxmox import formats
from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.call import Call, Params
from provision.lab.proxmox.faults import CallFailed, denied, die, no_node
from provision.lab.proxmox.formats import MAP_ENTRY, FormatError, parse, short_text, strict_boolean
from provision.lab.proxmox.mapping_check import checks
from provision.lab.proxmox.mapping_store import OPTIONS, MappingStore, Section
from provision.lab.proxmox.node import Node

LIST = "/cluster/mapping/pci"
ANY = ("Mapping.Modify", "Mapping.Use", "Mapping.Audit")


@contextmanager
def _prefixed(prefix: str) -> Iterator[None]:
    try:
        yield
    except CallFailed as error:
        raise CallFailed(f"{prefix} failed: {error.message}", error.status, error.errors) from error


def entries_problem(value: Any) -> dict[str, str] | str | None:
    """Check a ``map`` parameter: text for the whole, a dict keyed ``map[i]`` for bad entries."""
    if value in ("", [""]):
        return "type check ('array') failed"
    wrong: dict[str, str] = {}
    for index, entry in enumerate([value] if isinstance(value, str) else value):
        try:
            parse(str(entry), MAP_ENTRY, f"map[{index}]")
        except FormatError as error:
            wrong[f"map[{index}]"] = f"invalid format - {error}"
    return wrong or None


def _entries(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(entry) for entry in value]


def _row(name: str, section: Section, digest: str) -> dict[str, Any]:
    row: dict[str, Any] = {"id": name, "map": list(section.entries), "type": "pci", "digest": digest}
    for key, value in section.options.items():
        row[key] = value if key == "description" else int(value)
    return row


def _list(node: Node, caller: Caller, _path: Params, params: dict[str, Any]) -> list[dict[str, Any]]:
    check_node = params.get("check-node")
    if check_node == "":
        die("internal error - proxyto_callback returned nothing")
    if check_node is not None and not node.is_local(check_node):
        no_node(check_node)
    store = MappingStore.load(node.root)
    rows = []
    for name, section in store.sections.items():
        if caller.may(f"/mapping/pci/{name}", *ANY):
            row = _row(name, section, store.digest)
            rows.append(row | {"checks": checks(node.root, name, section, check_node)} if check_node else row)
    return rows


def _get(node: Node, _caller: Caller, path: Params, _params: dict[str, Any]) -> dict[str, Any]:
    store = MappingStore.load(node.root)
    section = store.sections.get(path["id"])
    if section is None:
        die(f"mapping '{path['id']}' not found\n")
    row = _row(path["id"], section, store.digest)
    del row["id"]
    return row


def _options(params: dict[str, Any]) -> dict[str, str]:
    return {key: str(int(params[key]) if params[key] is True else params[key]) for key in OPTIONS if key in params}


def _create(node: Node, _caller: Caller, _path: Params, params: dict[str, Any]) -> None:
    with _prefixed("create hardware mapping"), node.mapping_lock():
        store = MappingStore.load(node.root)
        if params["id"] in store.sections:
            die(f"pci ID '{params['id']}' already defined\n")
        store.put(params["id"], Section(_entries(params["map"]), _options(params)))
        store.save(node.root)


def _update(node: Node, _caller: Caller, path: Params, params: dict[str, Any]) -> None:
    with _prefixed("update hardware mapping"), node.mapping_lock():
        store = MappingStore.load(node.root)
        store.require_digest(params.get("digest"))
        section = store.sections.get(path["id"])
        if section is None:
            die(f"pci ID '{path['id']}' does not exist\n")
        if "map" not in params:
            die("missing value for required option 'map'\n")
        store.put(path["id"], Section(_entries(params["map"]), _merged(section, params)))
        store.save(node.root)


def _merged(section: Section, params: dict[str, Any]) -> dict[str, str]:
    options = dict(section.options)
    for key in filter(None, str(params.get("delete", "")).replace(";", ",").split(",")):
        if key in params:
            die(f"cannot set and delete property '{key}' at the same time!\n")
        if key not in OPTIONS:
            die(f"no such option '{key}'\n")
        options.pop(key, None)
    return options | _options(params)


def _delete(node: Node, _caller: Caller, path: Params, _params: dict[str, Any]) -> None:
    with _prefixed("delete pci mapping"), node.mapping_lock():
        store = MappingStore.load(node.root)
        store.sections.pop(path["id"], None)
        store.save(node.root)


def _require_all(_node: Node, caller: Caller, _path: Params, _params: dict[str, Any]) -> None:
    caller.require("/mapping/pci", "Mapping.Modify")


def _require_one(_node: Node, caller: Caller, path: Params, _params: dict[str, Any]) -> None:
    caller.require(f"/mapping/pci/{path['id']}", "Mapping.Modify")


def _require_any(_node: Node, caller: Caller, path: Params, _params: dict[str, Any]) -> None:
    if not caller.may(f"/mapping/pci/{path['id']}", *ANY):
        denied()


_BODY = {
    "map": entries_problem,
    "description": short_text(4096),
    "mdev": strict_boolean,
    "live-migration-capable": strict_boolean,
}

CALLS: tuple[Call, ...] = (
    Call("GET", LIST, _list, {"check-node": formats.anything}),
    Call("GET", f"{LIST}/{{id}}", _get, require=_require_any),
    Call("POST", LIST, _create, {"id": formats.config_id, **_BODY}, ("id", "map"), _require_all),
    Call(
        "PUT",
        f"{LIST}/{{id}}",
        _update,
        {**_BODY, "digest": short_text(64), "delete": short_text(4096)},
        require=_require_one,
    ),
    Call("DELETE", f"{LIST}/{{id}}", _delete, require=_require_all),
)
