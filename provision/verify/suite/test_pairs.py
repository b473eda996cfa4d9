"""Claims about pairs of GPUs in a guest: no pair lost data; figures of each as JUnit properties."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.errors import Undecided
from provision.verify.modules.p2p_pairs import P2pPairs
from provision.verify.suite.conftest import Machine

pytestmark = pytest.mark.pvectl_claim
LOST = ("WRONG_DATA", "HANG")


@pytest.fixture
def measured(
    request: pytest.FixtureRequest, machine: Machine, record_figure: Callable[[str, object], None]
) -> P2pPairs:
    machine.need("guest")
    if request.config.getoption("--pvectl-p2p") == "off":
        pytest.skip("not applicable: nothing is measured without --pvectl-p2p quick")
    pairs: P2pPairs = request.getfixturevalue("p2p_pairs")
    if not len(pairs):
        pytest.skip(f"not applicable: {machine.name} has no pair of GPUs")
    for pair in pairs:
        name = f"p2p_{pair.source}_{pair.target}"
        record_figure(f"{name}_verdict", pair.verdict)
        figures = (("latency_us", pair.figures.latency_us()), ("gb_per_s", pair.figures.bandwidth()))
        for what, figure in figures:
            if figure is not None:
                record_figure(f"{name}_{what}", figure)
    unknown = [pair for pair in pairs if pair.verdict == "UNKNOWN"]
    if unknown:
        one = unknown[0]
        raise Undecided(f"Unable to judge GPU {one.source} to {one.target}: {one.reason}", one.remedy)
    return pairs


def test_no_pair_loses_data(measured: P2pPairs) -> None:
    lost = [pair for pair in measured if pair.verdict in LOST]
    assert not lost, f"GPU {lost[0].source} to {lost[0].target}: {lost[0].reason}"
