"""The scoring tool as a module for its tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def score():
    """Return tests/doctor/corpus/score.py."""
    spec = importlib.util.spec_from_file_location("doctor_score", Path(__file__).with_name("score.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
