"""Run the proof suite as a process of its own and read its judgements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from provision.errors import Interrupted, PvectlError
from provision.evidence import Unknown
from provision.guest.p2p import text_matrix
from provision.plan.model import Expectation
from provision.remote.session import Target
from provision.verify.facts import Proof, ProofFacts, Result, VerifyReport, undecided

SUITE = Path(__file__).resolve().parent / "suite"
_PLUGINS = ("testinfra.plugin", "provision.verify.plugin")
_DEADLINE = 600.0


def run_suite(
    facts: ProofFacts,
    expectations: tuple[Expectation, ...],
    targets: Mapping[str, Target],
    junit: Path | None = None,
) -> VerifyReport:
    """Judge every expectation in a pytest process and return the report.

    ``targets`` maps the suite's host names (the host's own, ``guest-<vmid>``) to the way there.
    pytest's own exit codes count: 2 is an interrupt, 3 and 4 are errors of ours, 5 means that
    nothing was judged.
    """
    with tempfile.TemporaryDirectory(prefix="pvectl-verify-") as folder:
        work = Path(folder)
        (work / "proof.json").write_text(Proof(facts=facts, expectations=expectations).model_dump_json(), "utf-8")
        (work / "targets.json").write_text(
            json.dumps({name: target.model_dump() for name, target in targets.items()}), "utf-8"
        )
        (work / "pytest.ini").write_text("[pytest]\n", "utf-8")
        done = subprocess.run(
            _argv(work, targets, junit), capture_output=True, text=True, timeout=_DEADLINE, env=_env(), check=False
        )
        if done.returncode == 2:
            raise Interrupted(f"Unable to finish the proof of {facts.host}: it was interrupted", "run it again")
        results = _results(work / "result.json", done)
    return VerifyReport(host=facts.host, results=_complete(results, expectations), matrices=_matrices(facts))


def _argv(work: Path, targets: Mapping[str, Target], junit: Path | None) -> list[str]:
    argv = [sys.executable, "-m", "pytest", str(SUITE / "test_proof.py"), "-q"]
    argv += ["-c", str(work / "pytest.ini"), "--rootdir", str(SUITE)]
    argv += ["-p", "no:cacheprovider"]
    for plugin in _PLUGINS:
        argv += ["-p", plugin]
    argv += ["--hosts=" + ",".join(f"pvectl://{name}" for name in targets)]
    argv += [f"--pvectl-targets={work / 'targets.json'}", f"--pvectl-proof={work / 'proof.json'}"]
    argv += [f"--pvectl-result={work / 'result.json'}"]
    return argv + ([f"--junitxml={junit}"] if junit else [])


def _env() -> dict[str, str]:
    # Foreign plugins of the environment must not change what the proof means.
    return {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _results(path: Path, done: subprocess.CompletedProcess[str]) -> list[Result]:
    if not path.exists() or done.returncode not in (0, 1, 5, 8):
        tail = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise PvectlError(
            f"Unable to run the proof suite: pytest ended with {done.returncode}\n" + "\n".join(tail),
            "this is a defect of pvectl or of its installation",
        )
    return [Result.model_validate(value) for value in json.loads(path.read_text("utf-8"))]


def _complete(results: list[Result], expectations: tuple[Expectation, ...]) -> tuple[Result, ...]:
    """Every expectation has a result, in the plan's order: one that no test judged is undecided."""
    by_key = {(r.check, r.subject): r for r in results}
    return tuple(by_key.get((e.check, e.subject)) or _unjudged(e) for e in expectations)


def _unjudged(expectation: Expectation) -> Result:
    why = undecided("no test judged this", "say how to reach the guest in the inventory: vms.<id>.guest.address")
    return Result(check=expectation.check, subject=expectation.subject, expected=expectation.expected, judgement=why)


def _matrices(facts: ProofFacts) -> dict[int, str]:
    texts: dict[int, str] = {}
    for vmid, guest in facts.guests.items():
        if not isinstance(guest, Unknown) and not isinstance(guest.p2p, Unknown) and len(guest.p2p["write"]) > 1:
            texts[vmid] = text_matrix(guest.p2p["write"])
    return texts
