"""pytest plugin: options, hosts, fixtures for anybody's tests, and what runs the proof.

It is loaded in every pytest run of an environment that has pvectl, so it imports nothing heavy and
does nothing unless one of its options is given or one of its fixtures is asked for.

Users' own tests may use it alone: ``pytest --pvectl-inventory pvectl.yaml --hosts=pvectl://pve1,pvectl://guest-100``
gives them testinfra's ``host`` over pvectl's own transport, with host keys verified.  Its fixtures work over any of
testinfra's backends.

Three outcomes: a test that asserts what is false fails; one that could not look (:class:`provision.errors.Undecided`)
is an error, wherever in the test that shows; one that does not apply is skipped with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from provision.inventory.models import Inventory
    from provision.verify.facts import Proof, Result
    from provision.verify.modules.iommu_groups import IommuGroups
    from provision.verify.modules.kernel_cmdline import KernelCmdline
    from provision.verify.modules.nvidia_gpus import NvidiaGpus
    from provision.verify.modules.p2p_pairs import P2pPairs
    from provision.verify.modules.pci_devices import PciDevices

PROOF = pytest.StashKey["Proof"]()
RESULTS = pytest.StashKey[list["Result"]]()
INVENTORY = pytest.StashKey["Inventory"]()
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pvectl")
    group.addoption("--pvectl-inventory", metavar="FILE", help="inventory: hosts pvectl://NAME, and what must hold")
    group.addoption("--pvectl-targets", metavar="FILE", help="how to reach hosts named pvectl://NAME (JSON)")
    group.addoption(
        "--pvectl-p2p",
        choices=("off", "quick", "full"),
        default="off",
        help="let the fixture p2p_pairs measure between idle GPUs",
    )
    group.addoption(
        "--pvectl-accept-risk", action="store_true", help="measure although the host's state is not known here"
    )
    group.addoption("--pvectl-proof", metavar="FILE", help="facts and expectations to judge (JSON, from pvectl verify)")
    group.addoption("--pvectl-result", metavar="FILE", help="write the judgements to FILE (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "pvectl_role(name): run on hosts of this role alone (host, guest)")
    config.addinivalue_line("markers", "pvectl_claim: part of the suite that runs without pvectl verify")
    config.stash[RESULTS] = []
    if config.getoption("--pvectl-inventory"):
        _use_inventory(config, Path(config.getoption("--pvectl-inventory")))
    if config.getoption("--pvectl-targets"):
        from provision.verify.backend import register

        register(Path(config.getoption("--pvectl-targets")))
    if config.getoption("--pvectl-proof"):
        from provision.verify.facts import Proof

        text = Path(config.getoption("--pvectl-proof")).read_text("utf-8")
        config.stash[PROOF] = Proof.model_validate_json(text)


def _use_inventory(config: pytest.Config, path: Path) -> None:
    from provision.errors import PvectlError
    from provision.inventory.loader import load
    from provision.verify.backend import register_targets
    from provision.verify.inventory_hosts import targets_of

    try:
        inventory = load(path)
    except PvectlError as error:
        raise pytest.UsageError("\n".join((error.message, *getattr(error, "problems", ()), error.hint))) from error
    config.stash[INVENTORY] = inventory
    register_targets(targets_of(inventory))


def inventory_of(config: pytest.Config) -> Inventory | None:
    """Return the inventory of ``--pvectl-inventory``, ``None`` without one."""
    return config.stash.get(INVENTORY, None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each expectation of the proof whose subject has the test's role."""
    if "pvectl_expectation" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("pvectl_role")
    role = marker.args[0] if marker else None
    proof = metafunc.config.stash.get(PROOF, None)
    expectations = () if proof is None else proof.expectations
    wanted = [e for e in expectations if role in (None, role_of(e.check))]
    metafunc.parametrize("pvectl_expectation", wanted, ids=[f"{e.check}-{e.subject}" for e in wanted])


def role_of(check: str) -> str:
    """``guest`` for checks that speak of the inside of a VM, else ``host``."""
    return "guest" if check.startswith("guest-") else "host"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a test only on the host it speaks of: testinfra multiplies every test by every host.

    With a proof to judge, only the proof is run.
    """
    has_proof = PROOF in config.stash
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        is_other = has_proof and item.get_closest_marker("pvectl_claim") is not None
        (kept if _belongs(item) and not is_other else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def _belongs(item: pytest.Item) -> bool:
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    host, expectation = params.get("_testinfra_host"), params.get("pvectl_expectation")
    if expectation is None:
        return True
    if host is None or not hasattr(expectation, "check"):
        return False  # nothing of this role is expected: pytest made one empty case
    name = str(host.backend.hostname)
    if role_of(expectation.check) == "guest":
        return name == "guest-" + str(expectation.subject).removeprefix("vm/")
    return not name.startswith("guest-")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Any:
    """Report what could not be looked at as an error.

    pytest knows errors only of the phases around a test, so the report is given as one of these.
    """
    report = yield
    if call.when == "call" and call.excinfo is not None and report.failed:
        from provision.errors import Undecided

        if call.excinfo.errisinstance(Undecided):
            report.when = "setup"
            error: Any = call.excinfo.value
            report.longrepr = f"could not look: {error.message}" + (f"\nhint: {error.hint}" if error.hint else "")
    return report


@pytest.fixture(scope="session")
def pvectl_proof(request: pytest.FixtureRequest) -> Proof:
    """Facts and expectations of this run."""
    return request.config.stash[PROOF]


@pytest.fixture
def pvectl_record(request: pytest.FixtureRequest) -> Any:
    """Keep a judgement for the result file."""
    return request.config.stash[RESULTS].append


@pytest.fixture
def record_figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Put a measurement into the JUnit report as a property of the test, whatever family of JUnit is written."""
    return lambda name, value: request.node.user_properties.append((name, str(value)))


@pytest.fixture(scope="module")
def pci_devices(host: Any) -> PciDevices:
    """PCI functions of the machine, by address, id, class and driver."""
    from provision.verify.modules.pci_devices import PciDevices

    return PciDevices(host)


@pytest.fixture(scope="module")
def iommu_groups(pci_devices: PciDevices) -> IommuGroups:
    """IOMMU groups of the machine, and whether a device is alone in its own."""
    from provision.verify.modules.iommu_groups import IommuGroups

    return IommuGroups(pci_devices)


@pytest.fixture(scope="module")
def kernel_cmdline(host: Any) -> KernelCmdline:
    """The running kernel's command line."""
    from provision.verify.modules.kernel_cmdline import KernelCmdline

    return KernelCmdline(host)


@pytest.fixture(scope="module")
def nvidia_gpus(host: Any) -> NvidiaGpus:
    """The GPUs as driver, NVML and CUDA see them: one run of the probe for a module's tests."""
    from provision.verify.modules.nvidia_gpus import NvidiaGpus

    return NvidiaGpus(host)


@pytest.fixture(scope="module")
def p2p_pairs(host: Any, nvidia_gpus: NvidiaGpus, request: pytest.FixtureRequest) -> P2pPairs:
    """Pairs of GPUs: granted or not; measured with ``--pvectl-p2p``."""
    from provision.verify.modules.p2p_pairs import P2pPairs

    option = request.config.getoption
    return P2pPairs(host, option("--pvectl-p2p"), accept_risk=option("--pvectl-accept-risk"), facts=nvidia_gpus.facts)


def _boot_of(host: Any) -> str:
    from provision.errors import PvectlError, Undecided

    try:
        done = host.run("cat %s", BOOT_ID)
    except (RuntimeError, PvectlError, OSError) as error:
        raise Undecided(f"Unable to read the boot identity of {host.backend.get_pytest_id()}: {error}") from error
    if done.rc != 0:
        name = host.backend.get_pytest_id()
        raise Undecided(f"Unable to read the boot identity of {name}: {done.stderr.strip()}")
    return str(done.stdout).strip()


@pytest.fixture(scope="module")
def pvectl_boot(host: Any) -> str:
    """Identity of the machine's boot when the module's tests began."""
    return _boot_of(host)


@pytest.fixture
def same_boot(host: Any, pvectl_boot: str) -> Iterator[str]:
    """Make the test an error where the machine has booted anew meanwhile: what it saw is of two boots."""
    yield pvectl_boot
    now = _boot_of(host)
    if now != pvectl_boot:
        from provision.errors import Undecided

        name = host.backend.get_pytest_id()
        raise Undecided(f"Unable to judge {name}: it booted anew in the middle ({pvectl_boot} became {now})")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the result file, and answer 8 where nothing failed but something could not be decided."""
    results = session.config.stash[RESULTS]
    target = session.config.getoption("--pvectl-result")
    if target:
        Path(target).write_text(json.dumps([r.model_dump(mode="json") for r in results]), "utf-8")
    states = [result.judgement.state for result in results]
    if states and exitstatus in (0, 1) and "undecided" in states and session.testsfailed == states.count("undecided"):
        session.exitstatus = 8
