"""Geometry: nothing overlaps, nothing sticks out, every text fits."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.host.model import HostModel
from provision.lab.machine import machine_names
from provision.plan.model import Plan
from provision.report.contents import pictures
from provision.report.layout import PADDING, Placed, Rect, head_of, place, place_for_screen, size_of
from provision.report.picture import Item, Line, Picture
from provision.report.text_width import text_width

SLACK = 1e-6


def apart(one: Rect, other: Rect) -> bool:
    return (
        one.right <= other.left + SLACK
        or other.right <= one.left + SLACK
        or one.bottom <= other.top + SLACK
        or other.bottom <= one.top + SLACK
    )


def inside(inner: Rect, outer: Rect) -> bool:
    return (
        inner.left >= outer.left - SLACK
        and inner.top >= outer.top - SLACK
        and inner.right <= outer.right + SLACK
        and inner.bottom <= outer.bottom + SLACK
    )


def check(boxes: tuple[Placed, ...]) -> None:
    rects = {box.item.key: box.rect for box in boxes}
    assert len(rects) == len(boxes)
    for box in boxes:
        children = [rects[child.key] for child in box.item.children]
        assert all(inside(child, box.rect) for child in children), box.item.key
        assert all(apart(one, other) for one, other in itertools.combinations(children, 2)), box.item.key
        assert all(apart(head_of(box), child) for child in children), box.item.key
        for line in box.lines:
            size, bold = size_of(line)
            assert text_width(line.text, size, bold=bold) <= box.rect.width - 2 * PADDING + SLACK, line
        assert head_of(box).bottom <= box.rect.bottom


def check_picture(picture: Picture) -> None:
    boxes = place_for_screen(picture.root)
    check(boxes)
    keys = {box.item.key for box in boxes}
    for outline in picture.outlines:
        assert {*outline.keys, *outline.heads} <= keys


@pytest.mark.parametrize("gpus", [0, 1, 2, 8, 16])
def test_any_number_of_gpus(model: Callable[..., HostModel], gpus: int) -> None:
    (picture,) = pictures(model(gpus=gpus))
    check_picture(picture)
    assert sum(item.kind == "gpu" for item in picture.root.walk()) == gpus


@pytest.mark.parametrize("name", machine_names())
@pytest.mark.parametrize("show_all", [False, True])
def test_every_machine(model: Callable[..., HostModel], name: str, *, show_all: bool) -> None:
    host = model(name)
    (picture,) = pictures(host, show_all=show_all)
    check_picture(picture)
    if show_all:
        assert {fn.bdf for fn in host.pci} <= {item.key for item in picture.root.walk()}


def test_sixteen_gpus_behind_switches(model: Callable[..., HostModel]) -> None:
    (picture,) = pictures(model("switch-4x4", 16))
    check_picture(picture)


def test_before_and_after(model: Callable[..., HostModel], plan: Callable[[HostModel], Plan]) -> None:
    host = model("switch-4x4")
    both = pictures(host, plan(host))
    assert [picture.name for picture in both] == ["now", "after"]
    for picture in both:
        check_picture(picture)


def test_a_picture_is_shaped_like_a_screen(model: Callable[..., HostModel]) -> None:
    for host in (model(), model(gpus=16), model("switch-4x4")):
        whole = place_for_screen(pictures(host)[0].root)[0].rect
        assert 0.5 < whole.width / whole.height < 2.5


LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=60), min_size=1, max_size=4)


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Item:
    """Any tree of boxes, with keys from their paths."""

    def grow(path: str, level: int) -> Item:
        amount = draw(st.integers(0, 4)) if level else 0
        children = tuple(grow(f"{path}.{number}", level - 1) for number in range(amount))
        kind = draw(st.sampled_from(("node", "port", "gpu", "owners")))
        lines = tuple(Line(text, draw(st.sampled_from(("title", "plain")))) for text in draw(LINES))
        return Item(path, kind, lines, children=children, columns=draw(st.integers(1, 4)))

    return grow("0", depth)


@settings(max_examples=40, deadline=None)
@given(trees())
def test_any_tree(root: Item) -> None:
    check(place(root))
