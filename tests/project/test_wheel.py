"""The wheel, built and installed into a fresh environment, runs and renders a template."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.wheel

RENDER = """
from pathlib import Path
import provision
from provision.resources import resource_path
templates = resource_path("templates")
assert Path(provision.__file__).parent in templates.parents, templates
from provision.plan.render import shipped_templates
text = shipped_templates()("host/grub-snippet.cfg.j2", {"tokens": ["iommu=pt"]})
assert 'iommu=pt"' in text, text
names = sorted(str(p.relative_to(templates)) for p in templates.rglob("*.j2"))
assert names, "no templates in the wheel"
print(len(names))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(out), str(ROOT)]
    subprocess.run(argv, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_wheel_holds_templates_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(n.startswith("provision/templates/host/") for n in names)
    assert any(n.startswith("provision/lab/machines/") for n in names)
    assert any(n.endswith("doctor/rules/iommu-off.md") for n in names)
    assert not any(n.startswith(("tests/", "docs/")) for n in names)


def test_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    # The dependencies come from this environment; the package itself must come from the wheel.
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    lock = str(ROOT / "requirements.lock")
    subprocess.run([*pip, "--require-hashes", "-r", lock], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    subprocess.run([str(python.parent / "pvectl"), "--help"], check=True, capture_output=True, cwd=tmp_path)
    done = subprocess.run([str(python), "-c", RENDER], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
