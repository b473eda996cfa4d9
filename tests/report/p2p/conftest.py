"""Lets the tests here import the reports beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def guest_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty root folder: the guest's libraries answer, its files say nothing."""
    return tmp_path_factory.mktemp("guest")
