"""Texts of tests/data/readers, and what the readers make of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.pci.model import PciFunction
from provision.readers.read import Listing, Reading, read

sys.path.insert(0, str(Path(__file__).parent))
"""The damage that tests do to texts (``mutations``) is shared among them."""

DATA = Path(__file__).parents[1] / "data" / "readers"


def text_of(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def reading_of(text: str) -> Reading:
    reading = read(text)
    assert isinstance(reading, Reading), reading
    return reading


def only(text: str) -> Listing:
    """The one listing of a text."""
    (listing,) = reading_of(text).listings
    return listing


def functions_of(text: str) -> dict[str, PciFunction]:
    return {fn.bdf: fn for fn in only(text).functions}


@pytest.fixture
def text() -> Callable[[str], str]:
    return text_of


@pytest.fixture
def listing() -> Callable[[str], Listing]:
    return only


@pytest.fixture
def reading() -> Callable[[str], Reading]:
    return reading_of


@pytest.fixture
def functions() -> Callable[[str], dict[str, PciFunction]]:
    return functions_of


@pytest.fixture
def corpus() -> Path:
    folder = os.environ.get("PVECTL_CORPUS", "")
    if not folder:
        pytest.skip("PVECTL_CORPUS names no folder")
    return Path(folder)
