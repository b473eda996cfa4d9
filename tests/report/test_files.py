"""The files: well-formed, self-contained, safe whatever a name holds."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from provision.capture.model import Capture
from provision.capture.store import load, save
from provision.cli import drawing, topo
from provision.cli.output import OutputFormat
from provision.envelope import dumps, wrap
from provision.errors import PvectlError, UsageError
from provision.host.assemble import assemble
from provision.host.model import HostModel
from provision.plan.model import Plan
from provision.report.contents import pictures
from provision.report.page import Assets, page
from provision.report.svg import svg

SVG = "{http://www.w3.org/2000/svg}"


def renamed(host: HostModel, name: str) -> HostModel:
    assert isinstance(host.proxmox.vms, tuple)
    vms = tuple(vm.model_copy(update={"name": name}) for vm in host.proxmox.vms)
    return host.model_copy(update={"proxmox": host.proxmox.model_copy(update={"vms": vms}), "hostname": name})


def test_svg_is_xml_with_both_color_schemes(model: Callable[..., HostModel], assets: Assets) -> None:
    text = svg(pictures(model()), assets.picture_style)
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    style = root.find(f"{SVG}style")
    assert style is not None
    assert "prefers-color-scheme: dark" in (style.text or "")
    keys = [box.get("data-key") for box in root.iter(f"{SVG}g") if "box" in (box.get("class") or "").split()]
    assert len(keys) == len(set(keys))
    assert {"0000:41:00.0", "0000:40:01.1", "pci0000:40", "NUMA node 0", "VM 100"} <= set(keys)


@pytest.mark.parametrize("name", ['</title><script>alert("1")</script>', "a\x00b\x1b[31m\ufffe\ud800", "&amp;' \"x"])
def test_no_name_breaks_out(model: Callable[..., HostModel], assets: Assets, name: str) -> None:
    host = renamed(model("desktop-single-gpu"), name)
    ET.fromstring(svg(pictures(host), assets.picture_style))
    text = page(pictures(host), assets)
    assert text.count("<script") == 1
    text.encode("utf-8")


def test_nothing_is_loaded_from_elsewhere(
    model: Callable[..., HostModel], plan: Callable[[HostModel], Plan], assets: Assets
) -> None:
    host = model()
    both = pictures(host, plan(host))
    for text in (svg(both, assets.picture_style), page(both, assets)):
        bare = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]|url\(|@import|\bsrc=|\bhref=", bare.replace("// ---", ""))


def test_policy_lets_the_pages_own_script_run_and_nothing_else(model: Callable[..., HostModel], assets: Assets) -> None:
    text = page(pictures(model("desktop-single-gpu")), assets)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_page_has_tabs_only_where_there_is_a_plan(
    model: Callable[..., HostModel], plan: Callable[[HostModel], Plan], assets: Assets
) -> None:
    host = model()
    assert "data-tab=" not in page(pictures(host), assets)
    assert page(pictures(host, plan(host)), assets).count("data-tab=") == 2


def test_an_at_sign_in_a_name_stays(model: Callable[..., HostModel], assets: Assets) -> None:
    text = page(pictures(renamed(model("desktop-single-gpu"), "a@SCRIPT@b")), assets)
    assert "a@SCRIPT@b: Proxmox VE" in text


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory, capture_of: Callable[[str], Capture]) -> Path:
    folder = tmp_path_factory.mktemp("capture")
    save(capture_of("switch-4x4"), folder / "host.tar.gz")
    return folder / "host.tar.gz"


class TestCommand:
    def run(self, capture: Path, **options: Path | OutputFormat | bool) -> int:
        values = {"output": OutputFormat.text, "show_all": False, **options}
        return topo.command(from_=[capture], **values)  # type: ignore[arg-type]

    def test_both_files(self, capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        one, two = tmp_path / "a.svg", tmp_path / "a.html"
        assert self.run(capture, svg=one, html=two) == 0
        ET.fromstring(one.read_text())
        assert two.read_text().startswith("<!DOCTYPE html>")
        said = capsys.readouterr()
        assert said.out == ""
        assert f"picture written to {one}" in said.err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.svg"]

    def test_stdout(self, capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.run(capture, svg=Path("-"))
        ET.fromstring(capsys.readouterr().out)

    def test_before_and_after(
        self, capture: Path, tmp_path: Path, plan: Callable[[HostModel], Plan], capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "plan.json"
        made = plan(assemble(load(capture)))
        file.write_text(dumps(wrap("plan", made.model_dump(mode="json"))))
        self.run(capture, svg=Path("-"), plan=file)
        assert "After the plan" in capsys.readouterr().out

    def test_a_plan_of_another_host_is_refused(
        self, capture: Path, tmp_path: Path, model: Callable[..., HostModel], plan: Callable[[HostModel], Plan]
    ) -> None:
        file = tmp_path / "plan.json"
        file.write_text(dumps(wrap("plan", plan(model()).model_dump(mode="json"))))
        with pytest.raises(UsageError, match="another machine"):
            self.run(capture, svg=tmp_path / "a.svg", plan=file)
        assert not (tmp_path / "a.svg").exists()

    def test_a_plan_without_a_picture_is_refused(self, capture: Path, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no picture"):
            self.run(capture, plan=tmp_path / "plan.json")

    def test_two_pictures_on_stdout_are_refused(self, capture: Path) -> None:
        with pytest.raises(UsageError, match="two pictures"):
            self.run(capture, svg=Path("-"), html=Path("-"))

    def test_a_place_that_cannot_be_written(self, capture: Path, tmp_path: Path) -> None:
        with pytest.raises(PvectlError, match="No such file or directory"):
            self.run(capture, svg=tmp_path / "none/a.svg")

    def test_without_the_solver_the_hint_says_what_to_install(
        self, model: Callable[..., HostModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        with pytest.raises(PvectlError) as caught:
            drawing.draw(model(), drawing.Wanted(svg=tmp_path / "a.svg"), show_all=False)
        assert "pvectl[report]" in caught.value.hint
