"""``pvesh``: the API's calls as root@pam in the node's shell, with its own quirks.

Exit status 0 even where a task failed, other lines before the JSON, parameter errors as text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery
from provision.lab.proxmox.access import ROOT
from provision.lab.proxmox.calls import find, perform
from provision.lab.proxmox.faults import CallFailed
from provision.lab.proxmox.mapping_store import MappingStore
from provision.lab.proxmox.vm_change import Change, described

METHODS = {"get": "GET", "create": "POST", "set": "PUT", "delete": "DELETE"}
FORMATS = ("text", "json", "json-pretty", "yaml")


class Usage(Exception):
    """The command line itself is wrong; the text is what pvesh says."""


def pvesh(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if len(argv) < 2:
        return fail("ERROR: no command specified\nUSAGE: pvesh <COMMAND> [ARGS] [OPTIONS]", 255)
    if argv[1] not in METHODS:
        return fail(f"ERROR: unknown command 'pvesh {argv[1]}'\nUSAGE: pvesh <COMMAND> [ARGS] [OPTIONS]", 255)
    usage = f"pvesh {argv[1]} <api_path> [OPTIONS] [FORMAT_OPTIONS]"
    if len(argv) < 3:
        return fail(f"400 not enough arguments\n{usage}", 255)
    path = "/" + argv[2].strip("/")
    try:
        params, form = _options(argv[3:])
        return _call(host, argv[1], path, params, form)
    except Usage as error:
        return fail(f"{error}\n{usage}", 255)


def _options(words: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    params: dict[str, Any] = {}
    form = "text"
    index = 0
    while index < len(words):
        match = re.fullmatch(r"--?([A-Za-z][\w-]*)(?:=(.*))?", words[index], re.DOTALL)
        if match is None:
            raise Usage("400 too many arguments")
        name, value = match[1], match[2]
        if value is None:
            index += 1
            if index >= len(words):
                raise Usage(f"Option {name} requires an argument\n400 unable to parse option")
            value = words[index]
        index += 1
        if name == "output-format":
            form = value
        elif name in ("noborder", "noheader", "human-readable", "quiet"):
            continue
        elif name == "map":
            params.setdefault("map", []).append(value)
        else:
            params[name] = value
    if form not in FORMATS:
        listed = ", ".join(FORMATS)
        text = f"value '{form}' does not have a value in the enumeration '{listed}'"
        raise Usage(f"400 Parameter verification failed.\noutput-format: {text}")
    return params, form


def _call(host: Machinery, verb: str, path: str, params: dict[str, Any], form: str) -> Answer:
    node = host.node
    try:
        found = find(METHODS[verb], path)
    except CallFailed:
        return fail(f"No '{verb}' handler defined for '{path}'", 1)
    unknown = [name for name in params if found.call.check_of(name) is None]
    if unknown:
        raise Usage("".join(f"Unknown option: {name}\n" for name in unknown) + "400 unable to parse option")
    warnings = "".join(f"{text}\n" for text in MappingStore.load(node.root).warnings) if "/mapping" in path else ""
    deferred, node.defer = node.defer, None
    try:
        result = perform(node, ROOT, METHODS[verb], path, params)
    except CallFailed as error:
        return _failed(error, verb, warnings, found.call.required)
    finally:
        node.defer = deferred
    if found.call.makes_task and isinstance(result, str):
        return _task(host, path, params, result)
    if found.call.path.endswith("/config") and verb == "set":
        vmid = int(found.path["vmid"])
        return Answer(0, described(Change.of(vmid, params)) + "\n", warnings)
    if isinstance(result, dict) and found.call.path.endswith("/log"):
        result = result["data"]
    return Answer(0, "" if result is None else _text(result, form), warnings)


def _failed(error: CallFailed, verb: str, warnings: str, required: tuple[str, ...]) -> Answer:
    if error.errors is None:
        rc = 2 if "does not exist" in error.message else 255
        return Answer(rc, "", warnings + error.message.rstrip("\n") + "\n")
    lines = "".join(f"{name}: {text}\n" for name, text in error.errors.items())
    needs = "".join(f" --{name} <{'array' if name == 'map' else 'string'}>" for name in required)
    return Answer(
        255,
        "",
        f"{warnings}400 {error.message.rstrip()}\n{lines}pvesh {verb} <api_path>{needs} [OPTIONS] [FORMAT_OPTIONS]\n",
    )


def _task(host: Machinery, path: str, params: dict[str, Any], upid: str) -> Answer:
    task = host.node.tasks.find(upid)
    out = "".join(f"{line}\n" for line in task.log if not line.startswith("TASK "))
    err = ""
    if not task.succeeded:
        err = f"{task.exitstatus}\n"
    elif task.exitstatus != "OK":
        err = f"Task finished with {(task.exitstatus or '').split()[-1]} warning(s)!\n"
    del path, params
    return Answer(0, out + json.dumps(upid) + "\n", err)


def _text(value: Any, form: str) -> str:
    if form == "json":
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    return json.dumps(value, sort_keys=True, indent=3, separators=(",", " : "), ensure_ascii=False) + "\n"
