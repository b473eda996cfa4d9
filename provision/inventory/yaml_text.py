"""YAML in, plain values and the place of each out: without the surprises of YAML 1.1.

PyYAML reads an unquoted ``0000:41:00.0`` as the number 2460 (base 60), ``on`` as true and
``010`` as 8.  The loader here knows null, true and false, plain decimal numbers and merge
keys; everything else is text.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[Hashable, ...]

MAX_NODES = 100_000
"""Bound of the expanded document: aliases of aliases can make a small file endless."""


class PlainLoader(yaml.SafeLoader):
    """SafeLoader whose plain scalars are text unless they are unmistakably something else."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


_NUMBER_START = list("-0123456789")
PlainLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
PlainLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]{0,17})$"), _NUMBER_START)
PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}$"), _NUMBER_START
)
PlainLoader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])


@dataclass(frozen=True)
class Place:
    """Line of a value and of the key that holds it, both from 1."""

    value: int
    key: int


@dataclass
class Document:
    """The values of one YAML document and where each stands.  ``repeated`` holds (line, path, first line)."""

    data: Any
    places: dict[Path, Place] = field(default_factory=dict)
    repeated: list[tuple[int, Path, int]] = field(default_factory=list)

    def line_of(self, path: Path, *, key: bool = False) -> int:
        """Return the line of ``path``, or of its nearest parent that stands in the document."""
        for end in range(len(path), -1, -1):
            place = self.places.get(path[:end])
            if place is not None:
                return place.key if key and end == len(path) else place.value
        return 1


class YamlProblem(Exception):
    """The text is not YAML that we read: line from 1 and what is wrong, without any of the file's text."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


def read_yaml(text: str) -> Document:
    """Read one YAML document.  Raises :class:`YamlProblem`."""
    try:
        loader = PlainLoader(text)
        node = loader.get_single_node()
        document = Document(data=None)
        if node is not None:
            _Walk(document, loader).node(node, (), Place(_line(node), _line(node)), ())
            document.data = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise YamlProblem(line, _wording(error, text, line)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlProblem(line, f"a control character (U+{error.character:04X}) is not allowed") from None
    except RecursionError:
        raise YamlProblem(1, "it is nested too deeply") from None
    return document


_SENSITIVE = re.compile(r"secret|passw|token|key", re.IGNORECASE)


def _wording(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    """Say what PyYAML found, never quoting a line that may hold a secret."""
    problem = error.problem or "it is not YAML"
    lines = text.splitlines()
    source = lines[line - 1] if line <= len(lines) else ""
    if "'\\t'" in problem or "\t" in source[: len(source) - len(source.lstrip())]:
        return "a tab is used for indentation; indent with blanks"
    if "expected a single document" in (error.context or ""):
        return "a second document begins here (---); one file holds one inventory"
    if _SENSITIVE.search(source):
        return "this line is not valid YAML; put the value in quotes"
    return f"{error.context}: {problem}" if error.context else problem


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Walk:
    """One pass over the nodes that notes every place and every repeated key."""

    def __init__(self, document: Document, loader: PlainLoader) -> None:
        self._document = document
        self._loader = loader
        self._count = 0

    def node(self, node: yaml.Node, path: Path, place: Place, above: tuple[int, ...]) -> None:
        self._count += 1
        if id(node) in above:
            raise YamlProblem(place.key, "an anchor contains itself")
        if self._count > MAX_NODES:
            raise YamlProblem(place.key, f"it expands to more than {MAX_NODES} values")
        self._check_tag(node)
        self._document.places[path] = place
        inside = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            for name, key, value in self._entries(node, path):
                self.node(value, (*path, name), Place(_line(value), _line(key)), inside)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self.node(value, (*path, index), Place(_line(value), _line(value)), inside)

    def _check_tag(self, node: yaml.Node) -> None:
        """Refuse ``!!int x`` and ``!other``: a value is what it looks like."""
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        natural = self._loader.resolve(type(node), node.value, (plain, not plain))  # type: ignore[no-untyped-call]
        if node.tag not in (natural, "tag:yaml.org,2002:str"):
            raise YamlProblem(_line(node), "a tag (!name) is not used here; remove it")

    def _entries(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[Hashable, yaml.Node, yaml.Node]]:
        own: dict[str, int] = {}
        merged: list[tuple[Hashable, yaml.Node, yaml.Node]] = []
        mine: list[tuple[Hashable, yaml.Node, yaml.Node]] = []
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                merged.extend(_merged(value))
                continue
            self._check_tag(key)
            name = _key(key)
            first = own.setdefault(str(name), _line(key))
            if str(name) in {str(n) for n, _, _ in mine}:
                self._document.repeated.append((_line(key), (*path, name), first))
            mine.append((name, key, value))
        yield from (entry for entry in merged if str(entry[0]) not in own)
        yield from mine


def _merged(node: yaml.Node, depth: int = 0) -> Iterator[tuple[Hashable, yaml.Node, yaml.Node]]:
    """Yield what ``<<`` brings in; a list of mappings is taken in order, the first wins (as YAML says)."""
    if depth > 20:
        raise YamlProblem(_line(node), "an anchor contains itself")
    if isinstance(node, yaml.SequenceNode):
        for part in reversed(node.value):
            yield from _merged(part, depth + 1)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                yield from _merged(value, depth + 1)
            else:
                yield _key(key), key, value


def _key(node: yaml.Node) -> Hashable:
    if not isinstance(node, yaml.ScalarNode):
        raise YamlProblem(_line(node), "a list or mapping cannot be a key")
    value: Mapping[str, Hashable] = {"tag:yaml.org,2002:null": None}
    if node.tag == "tag:yaml.org,2002:int":
        return int(node.value)
    if node.tag == "tag:yaml.org,2002:bool":
        return str(node.value).lower() == "true"
    return value.get(node.tag, str(node.value))
