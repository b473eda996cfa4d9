"""Places for the boxes of a picture: every box inside its parent, no two of one parent on the same spot.

Each edge is a variable and each rule a constraint of kiwisolver's Cassowary: columns line up, the boxes of a row share
top and bottom, and everything is as small as that allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kiwisolver import Constraint, Expression, Solver, Variable

from provision.report.picture import Item, Line
from provision.report.text_width import fit, text_width

PADDING: Final = 12.0
GAP: Final = 14.0
LINE: Final = 16.0
TITLE: Final = 13.0
TEXT: Final = 12.0
CARD: Final = 216.0
"""Room for text in a box without boxes in it; longer lines are broken."""
WIDE: Final = 460.0
"""The same for the heading of a NUMA node, the host or the list of VMs."""
SHAPE: Final = 1.4
"""Width to height of what a page has room for on most screens."""


@dataclass(frozen=True)
class Rect:
    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


@dataclass(frozen=True)
class Placed:
    item: Item
    rect: Rect
    lines: tuple[Line, ...]
    """The item's lines, broken to its width."""


def head_of(box: Placed) -> Rect:
    """Return the part of a box that its own lines take, inside its border."""
    rect = box.rect
    return Rect(rect.left + 3, rect.top + 3, rect.width - 6, PADDING + LINE * len(box.lines) - 1)


def size_of(line: Line) -> tuple[float, bool]:
    """Return the font size of a line, and whether it is bold."""
    return (TITLE, True) if line.tone == "title" else (TEXT, False)


def place(root: Item) -> tuple[Placed, ...]:
    """Return every box of the tree with its place, parents before their children; the root begins at 0, 0."""
    broken = {item.key: tuple(_broken(item)) for item in root.walk()}
    rects = _Sheet(broken).rects(root)
    return tuple(Placed(item, rects[item.key], broken[item.key]) for item in root.walk())


def place_for_screen(root: Item) -> tuple[Placed, ...]:
    """Place the tree with as many of the root's boxes side by side as a screen shows largest."""
    nodes = sum(child.kind == "node" for child in root.children)
    tries = [place(replace(root, columns=columns)) for columns in range(1, max(nodes, 1) + 1)]
    return min(tries, key=lambda boxes: max(boxes[0].rect.width / SHAPE, boxes[0].rect.height))


def _broken(item: Item) -> Iterator[Line]:
    room = max(WIDE if item.kind in ("host", "node", "owners") else CARD, _children_width(item))
    for line in item.lines:
        size, bold = size_of(line)
        for text in fit(line.text, room, size, bold=bold):
            yield Line(text, line.tone)


def _children_width(item: Item) -> float:
    """Room that the boxes of the widest row take at least."""
    columns = min(item.columns, len(item.children))
    if not columns:
        return 0.0
    rows = [item.children[start : start + columns] for start in range(0, len(item.children), columns)]
    inner = max(sum(max(CARD, _children_width(child)) + 2 * PADDING for child in row) for row in rows)
    return inner + GAP * (columns - 1)


@dataclass(frozen=True)
class _Edges:
    left: Variable
    top: Variable
    right: Variable
    bottom: Variable


class _Sheet:
    def __init__(self, lines: Mapping[str, Sequence[Line]]) -> None:
        self._lines = lines
        self._solver = Solver()
        self._edges: dict[str, _Edges] = {}

    def rects(self, root: Item) -> dict[str, Rect]:
        for item in root.walk():
            self._edges[item.key] = _Edges(*(Variable(f"{item.key} {side}") for side in "ltrb"))
        top = self._edges[root.key]
        self._add(top.left == 0, top.top == 0)
        for item in root.walk():
            self._box(item)
        self._solver.updateVariables()
        return {key: _rect(edges) for key, edges in self._edges.items()}

    def _add(self, *constraints: Constraint) -> None:
        for constraint in constraints:
            self._solver.addConstraint(constraint)

    def _box(self, item: Item) -> None:
        edges = self._edges[item.key]
        lines = self._lines[item.key]
        width = max((_width(line) for line in lines), default=0.0)
        head = edges.top + PADDING + LINE * len(lines)
        self._add(edges.right >= edges.left + width + 2 * PADDING)
        if not item.children:
            self._add(edges.bottom >= head + PADDING, edges.right >= edges.left + CARD + 2 * PADDING)
        self._add((edges.right == edges.left) | "weak", (edges.bottom == edges.top) | "weak")
        self._rows(item, head + PADDING - 2)

    def _rows(self, item: Item, first_top: Expression) -> None:
        """Children row by row, in columns that line up over all rows."""
        if not item.children:
            return
        edges = self._edges[item.key]
        rows = [item.children[start : start + item.columns] for start in range(0, len(item.children), item.columns)]
        above = first_top
        for row in rows:
            boxes = [self._edges[child.key] for child in row]
            bottom = Variable("row bottom")
            for number, box in enumerate(boxes):
                self._add(box.top == above, box.bottom == bottom, edges.right >= box.right + PADDING)
                if number:
                    self._add(box.left == boxes[number - 1].right + GAP)
                else:
                    self._add(box.left == edges.left + PADDING)
            above = bottom + GAP
            self._add(edges.bottom >= bottom + PADDING)
        self._columns(item, rows)

    def _columns(self, item: Item, rows: Sequence[Sequence[Item]]) -> None:
        first = rows[0]
        for row in rows[1:]:
            for upper, lower in zip(first, row, strict=False):
                self._add(self._edges[upper.key].right == self._edges[lower.key].right)
        if item.columns == 1 and item.kind != "owners":
            self._stretch(item)

    def _stretch(self, item: Item) -> None:
        """Boxes below each other reach as far right as their parent does."""
        edges = self._edges[item.key]
        for child in item.children:
            self._add(self._edges[child.key].right == edges.right - PADDING)


def _width(line: Line) -> float:
    size, bold = size_of(line)
    return text_width(line.text, size, bold=bold)


def _rect(edges: _Edges) -> Rect:
    left, top = edges.left.value(), edges.top.value()
    return Rect(left, top, edges.right.value() - left, edges.bottom.value() - top)
