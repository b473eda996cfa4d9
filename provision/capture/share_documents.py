"""JSON documents of a bundle: of each only what is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from provision.capture.share_names import Pseudonyms
from provision.capture.share_places import device
from provision.capture.share_scrub import scrub
from provision.capture.share_texts import Rewrite


def json_lines(keep: Callable[[Any, Pseudonyms], Any]) -> Rewrite:
    """A JSON document, of which ``keep`` returns what stays."""

    def rewrite(text: str, names: Pseudonyms) -> str:
        try:
            value = json.loads(text)
        except ValueError:
            names.remove("damaged file")
            return "{"
        return scrub(json.dumps(keep(value, names), indent=1), names) + "\n"

    return rewrite


def members(value: Any, names: Pseudonyms) -> Any:
    """``/etc/pve/.members``: this node and whether the cluster has a quorum."""
    if not isinstance(value, dict):
        return {}
    kept: dict[str, Any] = {"version": 0}
    if isinstance(value.get("nodename"), str):
        kept["nodename"] = names.name("host name", value["nodename"])
    cluster = value.get("cluster")
    if isinstance(cluster, dict):
        kept["cluster"] = {
            key: cluster[key] for key in ("quorate", "nodes", "version") if isinstance(cluster.get(key), int)
        }
    return kept


def physical_volumes(value: Any, names: Pseudonyms) -> Any:
    rows = [row for part in _list(value, "report") for row in _list(part, "pv")]
    kept = [
        {"pv_name": device(str(row.get("pv_name", "")), names), "vg_name": _volume(str(row.get("vg_name", "")), names)}
        for row in rows
        if isinstance(row, dict)
    ]
    return {"report": [{"pv": kept}]}


def _list(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _volume(text: str, names: Pseudonyms) -> str:
    return names.name("volume", text)


def identities(value: Any, _: Pseudonyms) -> Any:
    """Who each GPU is: serial numbers are replaced as in the configuration space (:func:`scrub` does it)."""
    if not isinstance(value, dict):
        return {}
    data = value.get("data")
    devices = data.get("devices") if isinstance(data, dict) else None
    wanted = ("ids", "subsystem_ids", "dsn", "path")
    kept = (
        {str(bdf): {key: one.get(key) for key in wanted} for bdf, one in devices.items() if isinstance(one, dict)}
        if (isinstance(devices, dict))
        else {}
    )
    return {"schema": value.get("schema"), "created": value.get("created"), "data": {"devices": kept}}


def quarantine(value: Any, _: Pseudonyms) -> Any:
    """GPUs that did not come back: which, when and how; not the message."""
    data = value.get("data") if isinstance(value, dict) else None
    wanted = ("bdf", "vmid", "since", "fault", "boot_id", "sure")
    rows = [{**{key: row[key] for key in wanted if key in row}, "reason": "removed"} for row in _list(data, "gpus")]
    return {"schema": value.get("schema"), "created": value.get("created"), "data": {"gpus": rows}} if data else {}


def lock(value: Any, _: Pseudonyms) -> Any:
    return {key: value[key] for key in ("schema", "run", "decided") if key in value} if isinstance(value, dict) else {}


def p2p_verdicts(value: Any, _: Pseudonyms) -> Any:
    """The verdicts on P2P name each GPU by its UUID: a share has none."""
    schema = value.get("schema") if isinstance(value, dict) else None
    return {"schema": schema, "data": {"vms": {}}}
