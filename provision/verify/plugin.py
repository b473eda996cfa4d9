"""pytest plugin: options, hosts and fixtures of the proof suite.

It is loaded in every pytest run of an environment that has pvectl, so it imports nothing heavy and
does nothing unless one of its options is given.

Users' own tests may use it alone: ``pytest --pvectl-targets targets.json --hosts=pvectl://pve1``
gives them testinfra's ``host`` over pvectl's own transport, with host keys verified.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from provision.verify.facts import Proof, Result

PROOF = pytest.StashKey["Proof"]()
RESULTS = pytest.StashKey[list["Result"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pvectl")
    group.addoption("--pvectl-proof", metavar="FILE", help="facts and expectations to judge (JSON, from pvectl verify)")
    group.addoption("--pvectl-result", metavar="FILE", help="write the judgements to FILE (JSON)")
    group.addoption("--pvectl-targets", metavar="FILE", help="how to reach hosts named pvectl://NAME (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "pvectl_role(name): run on hosts of this role alone (host, guest)")
    config.stash[RESULTS] = []
    if config.getoption("--pvectl-targets"):
        from provision.verify.backend import register

        register(Path(config.getoption("--pvectl-targets")))
    if config.getoption("--pvectl-proof"):
        from provision.verify.facts import Proof

        text = Path(config.getoption("--pvectl-proof")).read_text("utf-8")
        config.stash[PROOF] = Proof.model_validate_json(text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each expectation of the proof whose subject has the test's role."""
    if "pvectl_expectation" not in metafunc.fixturenames or PROOF not in metafunc.config.stash:
        return
    marker = metafunc.definition.get_closest_marker("pvectl_role")
    role = marker.args[0] if marker else None
    wanted = [e for e in metafunc.config.stash[PROOF].expectations if role in (None, role_of(e.check))]
    metafunc.parametrize("pvectl_expectation", wanted, ids=[f"{e.check}-{e.subject}" for e in wanted])


def role_of(check: str) -> str:
    """``guest`` for checks that speak of the inside of a VM, else ``host``."""
    return "guest" if check.startswith("guest-") else "host"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a test only on the host it speaks of: testinfra multiplies every test by every host."""
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        (kept if _belongs(item) else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def _belongs(item: pytest.Item) -> bool:
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    host, expectation = params.get("_testinfra_host"), params.get("pvectl_expectation")
    if host is None or expectation is None:
        return True
    if not hasattr(expectation, "check"):
        return False  # nothing of this role is expected: pytest made one empty case
    name = str(host.backend.hostname)
    if role_of(expectation.check) == "guest":
        return name == "guest-" + str(expectation.subject).removeprefix("vm/")
    return not name.startswith("guest-")


@pytest.fixture(scope="session")
def pvectl_proof(request: pytest.FixtureRequest) -> Proof:
    """Facts and expectations of this run."""
    return request.config.stash[PROOF]


@pytest.fixture
def pvectl_record(request: pytest.FixtureRequest) -> Any:
    """Keep a judgement for the result file."""
    return request.config.stash[RESULTS].append


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the result file, and answer 8 where nothing failed but something could not be decided."""
    results = session.config.stash[RESULTS]
    target = session.config.getoption("--pvectl-result")
    if target:
        Path(target).write_text(json.dumps([r.model_dump(mode="json") for r in results]), "utf-8")
    if exitstatus == 0 and any(result.judgement.state == "undecided" for result in results):
        session.exitstatus = 8
