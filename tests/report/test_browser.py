"""The page in a real browser: texts fit their boxes, search, hover, tabs and zoom work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from provision.host.model import HostModel
from provision.plan.model import Plan
from provision.report.contents import pictures
from provision.report.page import Assets, page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

PROBE = """
const wide = [];
for (const text of document.querySelectorAll(".view:not([hidden]) .box > text")) {
  const box = text.parentElement.querySelector("rect").getBBox();
  const own = text.getBBox();
  if (own.x < box.x || own.x + own.width > box.x + box.width || own.y + own.height > box.y + box.height) {
    wide.push(text.textContent);
  }
}
const box = (key) => document.querySelector(`.view:not([hidden]) .box[data-key="${key}"]`);
const aside = () => document.getElementById("details").textContent;
const type = (text) => {
  document.getElementById("find").value = text;
  document.getElementById("find").dispatchEvent(new Event("input"));
};
const hits = () => [...document.querySelectorAll(".view:not([hidden]) .hit")].map((one) => one.dataset.key);
const view = () => document.querySelector(".view:not([hidden]) svg").getAttribute("viewBox");
const seen = {wide, address: hits(), first: aside()};
document.getElementById("find").dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
box("0000:84:00.0").dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
seen.hover = aside();
seen.mine = document.querySelectorAll(".view:not([hidden]) .gpu.mine").length;
seen.same = [...document.querySelectorAll(".view:not([hidden]) .same")].map((one) => one.dataset.group);
type("85:00");
seen.part = hits();
type("mellanox");
seen.word = hits();
type("no such thing");
seen.none = [hits().length, document.getElementById("found").textContent];
type("");
const before = view();
document.querySelector("[data-zoom=in]").click();
seen.zoomed = view() !== before;
document.querySelector("[data-zoom=fit]").click();
seen.fitted = view() === before;
document.querySelector("[data-tab=after]").click();
box("0000:84:00.0").dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
seen.after = aside();
seen.background = getComputedStyle(document.body).backgroundColor;
const done = document.createElement("pre");
done.id = "seen";
done.textContent = JSON.stringify(seen);
document.body.append(done);
"""


def look(file: Path, text: str, address: str, *more: str) -> str:
    """Return the page's DOM after its scripts have run."""
    file.write_text(text, encoding="utf-8")
    assert BROWSER is not None
    argv = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    argv += [f"--user-data-dir={file.parent / 'profile'}", "--window-size=1600,1200", *more, "--dump-dom"]
    done = subprocess.run([*argv, f"{file.as_uri()}#{address}"], capture_output=True, text=True, timeout=90, check=True)
    return done.stdout


def probe(text: str) -> str:
    """Add the test's own script; the page's policy would not let it run."""
    open_page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    return open_page.replace("</body>", f"<script>{PROBE}</script></body>")


@pytest.fixture(scope="module")
def html(model: Callable[..., HostModel], plan: Callable[[HostModel], Plan], assets: Assets) -> str:
    host = model("switch-4x4")
    return page(pictures(host, plan(host)), assets)


def result(dom: str) -> dict[str, Any]:
    found = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
    assert found is not None, dom[-2000:]
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


def test_page_at_work(html: str, tmp_path: Path) -> None:
    seen = result(look(tmp_path / "page.html", probe(html), "0000:03:00.0"))
    assert seen["wide"] == []
    assert seen["address"] == ["0000:03:00.0"]
    assert "7ed9618d8dc5d001" in seen["first"]
    assert seen["hover"].startswith("GPU 0000:84:00.0")
    assert "nouveau" in seen["hover"]
    assert (seen["mine"], seen["same"]) == (8, ["54"])
    assert seen["part"] == ["0000:85:00.0"]
    assert seen["word"] == ["0000:07:00.0", "0000:87:00.0"]
    assert seen["none"] == [0, "0 boxes"]
    assert (seen["zoomed"], seen["fitted"]) == (True, True)
    assert "vfio-pci" in seen["after"]
    assert "VM 100 train by mapping gpu-5" in seen["after"]
    assert seen["background"] == "rgb(255, 255, 255)"


def test_dark(html: str, tmp_path: Path) -> None:
    seen = result(look(tmp_path / "page.html", probe(html), "", "--blink-settings=preferredColorScheme=0"))
    assert seen["background"] == "rgb(13, 17, 23)"


def test_page_works_under_its_own_policy(html: str, tmp_path: Path) -> None:
    dom = look(tmp_path / "page.html", html, "0000:86:00.0")
    assert re.search(r'<aside id="details"[^>]*><h2>GPU 0000:86:00.0</h2>', dom)
    assert 'class="box gpu hit' in dom


@pytest.mark.parametrize("gpus", [8, 16])
def test_texts_fit_with_many_gpus(model: Callable[..., HostModel], assets: Assets, tmp_path: Path, gpus: int) -> None:
    text = page(pictures(model(gpus=gpus)), assets)
    measure = PROBE.partition("const box = (key)")[0] + PROBE[PROBE.index("const done =") :].replace("seen)", "{wide})")
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    dom = look(tmp_path / "page.html", bare.replace("</body>", f"<script>{measure}</script></body>"), "")
    assert result(dom) == {"wide": []}
