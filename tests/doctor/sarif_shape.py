"""What SARIF 2.1.0 requires of a log, checked property by property (OASIS SARIF 2.1.0, sections 3.13 to 3.58)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

LEVELS = {"none", "note", "warning", "error"}
URI = re.compile(r"[a-z][a-z0-9+.-]*:\S+")
RELATIVE = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=@/-]|%[0-9A-F]{2})+")


def problems(log: Any) -> Iterator[str]:
    """Yield what is wrong with ``log``; nothing for a valid one."""
    if log.get("version") != "2.1.0":
        yield "version is not 2.1.0"
    if not URI.fullmatch(log.get("$schema", "")):
        yield "$schema is no URI"
    if not isinstance(log.get("runs"), list):
        yield "runs is no array"
        return
    for run in log["runs"]:
        yield from _unknown(
            run,
            {"tool", "automationDetails", "originalUriBaseIds", "columnKind", "invocations", "results", "properties"},
        )
        yield from _driver(run["tool"]["driver"])
        yield from _bases(run)
        for result in run["results"]:
            yield from _result(result, run)
        for invocation in run["invocations"]:
            yield from _invocation(invocation)


def _unknown(value: dict[str, Any], known: set[str]) -> Iterator[str]:
    if set(value) - known:
        yield f"unknown properties {sorted(set(value) - known)}"


def _message(value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, dict) or not isinstance(value.get("text"), str) or not value["text"].strip():
        yield f"{where} has no text"


def _driver(driver: dict[str, Any]) -> Iterator[str]:
    yield from _unknown(driver, {"name", "version", "informationUri", "rules"})
    if not driver.get("name"):
        yield "the tool has no name"
    if not URI.fullmatch(driver.get("informationUri", "")):
        yield "informationUri is no absolute URI"
    ids = [rule.get("id") for rule in driver["rules"]]
    if len(ids) != len(set(ids)) or not all(ids):
        yield "ids of rules are missing or doubled"
    for rule in driver["rules"]:
        keys = {"id", "name", "shortDescription", "fullDescription", "helpUri", "help", "defaultConfiguration"}
        yield from _unknown(rule, keys)
        for key in ("shortDescription", "fullDescription", "help"):
            yield from _message(rule.get(key), f"{key} of {rule['id']}")
        if not URI.fullmatch(rule.get("helpUri", "")):
            yield f"helpUri of {rule['id']} is no absolute URI"
        if rule["defaultConfiguration"]["level"] not in LEVELS:
            yield f"level of {rule['id']}"


def _bases(run: dict[str, Any]) -> Iterator[str]:
    for name, base in run["originalUriBaseIds"].items():
        if not base.get("uri", "").endswith("/"):
            yield f"the base {name} does not end in a slash"


def _result(result: dict[str, Any], run: dict[str, Any]) -> Iterator[str]:
    known = {"ruleId", "ruleIndex", "level", "message", "locations", "relatedLocations", "partialFingerprints"}
    yield from _unknown(result, known | {"properties"})
    rules = run["tool"]["driver"]["rules"]
    if rules[result["ruleIndex"]]["id"] != result["ruleId"]:
        yield f"ruleIndex of {result['ruleId']} leads to another rule"
    if result.get("level") not in LEVELS:
        yield f"level of {result['ruleId']}"
    yield from _message(result.get("message"), "message")
    if len(result.get("locations", ())) != 1:
        yield f"{result['ruleId']} has not one location"
    for location in (*result["locations"], *result["relatedLocations"]):
        yield from _location(location, run)
    prints = result["partialFingerprints"]
    if not prints or not all(isinstance(one, str) and one for one in prints.values()):
        yield "a fingerprint is no text"


def _location(location: dict[str, Any], run: dict[str, Any]) -> Iterator[str]:
    yield from _unknown(location, {"physicalLocation", "logicalLocations", "message"})
    physical = location["physicalLocation"]
    yield from _unknown(physical, {"artifactLocation", "region"})
    artifact = physical["artifactLocation"]
    if not RELATIVE.fullmatch(artifact.get("uri", "")):
        yield f"{artifact.get('uri')!r} is no relative reference"
    if "uriBaseId" in artifact and artifact["uriBaseId"] not in run["originalUriBaseIds"]:
        yield f"there is no base {artifact['uriBaseId']}"
    line = physical.get("region", {}).get("startLine", 1)
    if not isinstance(line, int) or line < 1:
        yield "startLine is no line"


def _invocation(invocation: dict[str, Any]) -> Iterator[str]:
    yield from _unknown(invocation, {"executionSuccessful", "toolExecutionNotifications"})
    if not isinstance(invocation.get("executionSuccessful"), bool):
        yield "executionSuccessful is missing"
    for one in invocation["toolExecutionNotifications"]:
        yield from _message(one.get("message"), "a notification")
        if one.get("level") not in LEVELS:
            yield "level of a notification"
