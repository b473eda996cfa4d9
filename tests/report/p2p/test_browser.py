"""The page in a real browser: nothing overlaps or sticks out, every text can be read, both themes work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from provision.guest.verdict_model import P2pReport
from provision.report.p2p_html import page

import p2p_reports as reports  # isort: skip

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DARK = "--blink-settings=preferredColorScheme=0"
WHITE, NIGHT = "rgb(255, 255, 255)", "rgb(13, 17, 23)"

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

PROBE = """
for (const fold of document.querySelectorAll("details")) fold.open = OPEN;
const name = (node) => `${node.tagName}.${node.getAttribute("class") ?? ""} ${node.textContent.trim().slice(0, 40)}`;
const isAway = (node) => node.closest(".away, .defs, head, script, details:not([open]) > :not(summary)") !== null;

// --- contrast -----------------------------------------------------------------------------------
const parse = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
const linear = (part) => (part <= 10.31 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
function ground(node) {
  for (let at = node; at; at = at.parentElement) {
    const color = parse(getComputedStyle(at).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
  }
  return [255, 255, 255];
}
const faint = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let least = 21;
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || isAway(node)) continue;
  const style = getComputedStyle(node);
  const ink = luminance(parse(node.closest("svg") ? style.fill : style.color)) + 0.05;
  const paper = luminance(ground(node)) + 0.05;
  const contrast = Math.max(ink, paper) / Math.min(ink, paper);
  least = Math.min(least, contrast);
  if (contrast < 4.5) faint.push([contrast.toFixed(2), name(node)]);
  if (parseFloat(style.fontSize) < 9.5) faint.push([style.fontSize, name(node)]);
}

// --- what sticks out ----------------------------------------------------------------------------
const out = [];
for (const node of document.querySelectorAll("td, th, dd, dt, caption, li, p, h1, h2, h3, pre, summary, .v, .wide")) {
  if (!isAway(node) && node.scrollWidth > node.clientWidth + 1 && node.clientWidth) out.push(name(node));
}
for (const node of document.querySelectorAll("main *, header *")) {
  const box = node.getBoundingClientRect();
  if (!isAway(node) && box.width && (box.left < -1 || box.right > innerWidth + 1)) out.push(name(node));
}

// --- what overlaps ------------------------------------------------------------------------------
const over = [];
const boxes = (nodes) => [...nodes].filter((node) => !isAway(node)).map((node) => [node, node.getBoundingClientRect()]);
function collide(nodes, slack) {
  const all = boxes(nodes).filter(([, box]) => box.width > 0 && box.height > 0);
  for (const [at, [one, a]] of all.entries()) {
    for (const [two, b] of all.slice(at + 1)) {
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > slack && y > slack) over.push([name(one), name(two), x, y]);
    }
  }
}
for (const parent of [document.body, ...document.querySelectorAll("header, main, section, details, figure, .maps," +
    " .charts, .beside, .facts, .tools, nav, .key, tr, .maps > div, .banner, section > div")]) {
  collide(parent.children, 1.5);
}
for (const axes of document.querySelectorAll(".axes")) {
  const own = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  own.setAttribute("class", "chart");
  own.setAttribute("width", 700);
  own.setAttribute("height", 320);
  own.append(axes.cloneNode(true));
  document.body.append(own);
  collide(own.querySelectorAll("text"), 0);
  const edge = own.getBoundingClientRect();
  for (const [node, box] of boxes(own.querySelectorAll("text"))) {
    if (box.left < edge.left - 1) out.push(name(node));
  }
  own.remove();
}

// --- colors by choice, keyboard -----------------------------------------------------------------
const paper = () => getComputedStyle(document.body).backgroundColor;
const papers = [paper()];
for (const key of ["light", "dark", "system"]) {
  document.getElementById(`theme-${key}`).click();
  papers.push(paper());
}
const stuck = [...document.querySelectorAll("a, summary, input, .wide, pre")].filter((node) => node.tabIndex < 0);
const marks = [...document.querySelectorAll(".chart polyline")].filter((line) => {
  return getComputedStyle(line).stroke === "none" || !getComputedStyle(line).markerMid.includes("mark");
});
const seen = {
  faint: faint.slice(0, 20), least, out: out.slice(0, 20), over: over.slice(0, 20), papers,
  wide: document.documentElement.scrollWidth - innerWidth, stuck: stuck.length, marks: marks.length,
  lines: document.querySelectorAll(".chart polyline").length, inner: innerWidth,
};
const done = document.createElement("pre");
done.id = "seen";
done.textContent = JSON.stringify(seen);
document.body.replaceChildren(done);
"""


def look(folder: Path, markup: str, *, width: int = 1280, dark: bool = False, folded: bool = False) -> dict[str, Any]:
    """Return what the test's own script saw; the page's policy would not let it run."""
    assert BROWSER is not None
    script = PROBE.replace("OPEN", "false" if folded else "true")
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", markup)
    file = folder / "page.html"
    file.write_text(bare.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    argv = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    argv += [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1000", *([DARK] if dark else [])]
    done = subprocess.run([*argv, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-2000:]
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


@pytest.fixture(scope="module")
def made(guest_root: Path) -> dict[int, P2pReport]:
    return {
        2: reports.simulated(2, guest_root, level="full", faults={"0-1": "mirror"}),
        4: reports.simulated(4, guest_root, faults={"0-1": "hang", "2-3": "mirror", "3-1": "refused"}),
        8: reports.simulated(8, guest_root),
        16: reports.large(16, guest_root),
    }


def is_sound(seen: dict[str, Any]) -> None:
    assert seen["wide"] <= 0
    assert seen["out"] == []
    assert seen["over"] == []
    assert seen["faint"] == []
    assert (seen["stuck"], seen["marks"]) == (0, 0)
    assert seen["lines"] > 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("gpus", [8, *(pytest.param(many, marks=pytest.mark.laws) for many in (2, 4, 16))])
def test_page_at_1280(made: dict[int, P2pReport], tmp_path: Path, gpus: int, dark: bool) -> None:
    seen = look(tmp_path, page(made[gpus]), dark=dark)
    is_sound(seen)
    assert seen["papers"] == [NIGHT if dark else WHITE, WHITE, NIGHT, NIGHT if dark else WHITE]


@pytest.mark.laws
@pytest.mark.parametrize("gpus", [2, 16])
def test_folded(made: dict[int, P2pReport], tmp_path: Path, gpus: int) -> None:
    is_sound(look(tmp_path, page(made[gpus]), folded=True))


@pytest.mark.laws
def test_long_names_and_lines_break(made: dict[int, P2pReport], tmp_path: Path) -> None:
    long = "W" * 400
    report = made[2]
    pairs = tuple(pair.model_copy(update={"reason": long, "remedy": long}) for pair in report.pairs)
    rows = tuple(gpu.model_copy(update={"name": long, "fault": long}) for gpu in report.gpus)
    update = {"guest": long, "reason": long, "pairs": pairs, "gpus": rows, "log_excerpts": (long,), "notes": (long,)}
    seen = look(tmp_path, page(report.model_copy(update=update)))
    assert seen["wide"] <= 0
    assert seen["over"] == []


@pytest.mark.laws
def test_the_page_needs_no_script(made: dict[int, P2pReport], tmp_path: Path) -> None:
    assert "<script" not in page(made[2])


@pytest.mark.laws
def test_a_narrow_window_scrolls_its_tables_and_not_itself(made: dict[int, P2pReport], tmp_path: Path) -> None:
    seen = look(tmp_path, page(made[4]), width=700)
    assert seen["wide"] <= 0
    assert seen["over"] == []
