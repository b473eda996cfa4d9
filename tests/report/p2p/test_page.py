"""The page: what stands in it, that nothing breaks out of it, and that it is the same every time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.guest.nccl import NcclAnswer
from provision.guest.verdict_model import P2pReport
from provision.report.p2p_html import SECTIONS, page
from provision.report.p2p_markup import tag, text
from provision.report.p2p_verdicts import HEADLINES, LETTERS

import p2p_reports as reports  # isort: skip

VOID = {"meta", "input", "br"}
HOSTILE = (
    '</style></title><script>alert("1")</script><img src=x onerror=alert(1)>',
    "a\x00b\x1b[31m\ufffe\ud800",
    "\u202egnorw\u202c \u2066x",
    "&amp;'\"><svg onload=x>",
)


class Reader(HTMLParser):
    """Elements with their attributes; complains about tags that do not match."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of(self, name: str) -> Iterator[dict[str, str | None]]:
        return (attributes for tag, attributes in self.elements if tag == name)


def plain(markup: str) -> str:
    body = markup[markup.index("<body>") :]
    return " ".join(" ".join(Reader(body.removesuffix("</html>\n")).texts).split())


def changed(report: P2pReport, **update: Any) -> P2pReport:
    return report.model_copy(update=update)


@pytest.fixture(scope="module")
def mixed(guest_root: Path) -> P2pReport:
    return reports.simulated(4, guest_root, faults={"0-1": "hang", "2-3": "mirror", "3-1": "refused"})


def test_the_sentence_that_matters_comes_first(guest_root: Path) -> None:
    said = plain(page(reports.simulated(2, guest_root, level="full")))
    assert said.index(HEADLINES["PROVEN"]) < said.index("What to do:") < said.index("Row: the GPU")
    assert "policies.p2p: prove; this is as it should be (exit code 0)." in said
    bad = plain(page(reports.simulated(2, guest_root, faults={"0-1": "mirror"})))
    assert HEADLINES["WRONG_DATA"] in bad
    assert "NCCL_P2P_DISABLE=1" in bad[: bad.index("Row: the GPU")]
    assert "(exit code 7)" in bad


def test_every_verdict_has_a_letter_a_shape_and_words(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root)
    for verdict, letter in LETTERS.items():
        pairs = tuple(pair.model_copy(update={"verdict": verdict}) for pair in report.pairs)
        markup = page(changed(report, verdict=verdict, pairs=pairs))
        assert HEADLINES[verdict].replace("'", "&#x27;") in markup
        assert markup.count(f'class="v v{letter}"') >= 3
        assert f".v{letter}{{" in markup
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_the_matrix_has_a_cell_for_every_pair(mixed: P2pReport) -> None:
    markup = page(mixed)
    matrix = re.search(r'<table class="matrix">.*?</table>', markup, re.DOTALL)
    assert matrix is not None
    read = Reader(matrix[0])
    assert sum(cell.get("class") == "pcie" for cell in read.of("td")) == 12
    assert [head.get("scope") for head in read.of("th")].count("row") == 4
    letters = [data for data in read.texts if data in LETTERS.values()]
    assert {"H", "W", "N"} <= set(letters)


def test_figures_of_every_map_can_be_read_as_text(guest_root: Path) -> None:
    said = plain(page(reports.simulated(2, guest_root, level="full")))
    for part in ("Smallest copies", "12 KiB", "One way, 256 MiB", "Both ways, access off", "One word handed over"):
        assert part in said
    assert "1.40" in said
    assert "All pairs at once:" in said


def test_a_pair_without_figures_says_so_in_its_cell(guest_root: Path) -> None:
    markup = page(reports.simulated(2, guest_root, faults={"0-1": "hang"}))
    assert '<td class="none"><span class="away">not measured</span></td>' in markup
    said = plain(markup)
    assert "Times and rates with peer access on, 0→1:" in said
    assert "All pairs at once: fewer than two pairs work one by one" in said


def test_collectives(guest_root: Path) -> None:
    said = plain(page(reports.simulated(4, guest_root)))
    assert "All-reduce: bus bandwidth in GB/s (time in µs)" in said
    assert "SHM/direct/direct, 4 channels" in said
    assert "RING/LL from 4 KiB" in said
    assert "All-reduce over numbers of GPUs: time = base + hops * time of a hop" in said
    assert "p2p-on: over numbers of GPUs" in said


def test_wrong_values_of_a_collective_are_named(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root)
    answer = NcclAnswer.model_validate(reports.nccl(2, wrong=True))
    said = plain(page(changed(report, nccl=answer)))
    assert "WRONG VALUES all_reduce 4 KiB, rank 1, element 7: 1.0, not 3" in said


def test_without_collectives_it_says_so(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root, with_nccl=False)
    assert "Collectives: NCCL was not run." in plain(page(report))
    advice = Unknown(unknown="NCCL was not run", supply="pvectl p2p on an idle guest")
    said = plain(page(changed(report, advice=advice)))
    assert "What NCCL should be told is not known: NCCL was not run." in said
    assert "To know it: pvectl p2p" in said


def test_two_gpus_cannot_show_a_hop_and_nvlink_no_refusal(guest_root: Path) -> None:
    said = plain(page(reports.simulated(2, guest_root, route="nvlink")))
    assert "Time of one hop: p2p-off: times of [2] GPUs give no slope; measure a guest with four GPUs." in said
    assert "GPUs that are joined by NVLink cannot show either" in said
    assert "All pairs are joined by NVLink." in said


def test_nothing_measured(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root, level="", with_nccl=False)
    said = plain(page(report))
    assert "the verdicts are by the driver's status alone" in said
    assert said.count("Not measured.") == 3


def test_no_gpu_at_all(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root, level="", with_nccl=False)
    empty = changed(report, gpus=(), pairs=(), sets=(), nccl=None, verdict="UNKNOWN", reason="no answer")
    assert "There is no pair of GPUs." in plain(page(empty))


def test_a_fault_on_purpose_other_processes_and_a_fault_of_the_control_are_said_at_the_top(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root)
    update = {"injected": "private-copy", "while_busy": True, "control_fault": "a run hung"}
    said = plain(page(changed(report, **update)))
    head = said[: said.index("Row: the GPU")]
    assert "A fault (private-copy) was put in on purpose: nothing here speaks of the guest itself." in head
    assert "Other processes used the GPUs meanwhile" in head
    assert "Without P2P too: a run hung." in head


def test_environment_and_what_the_verdict_holds_for(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root)
    said = plain(page(report))
    for part in (report.fingerprint.digest, "595.58.03, module open", "KVMKVMKVM", "0000:01:00.0", "98.02.55.00.01"):
        assert part in said
    assert "host's options amd_iommu=on" in said
    lost = changed(report.fingerprint, host=Unknown(unknown="no session"))  # type: ignore[arg-type]
    assert "The host's part of the fingerprint: no session." in plain(page(changed(report, fingerprint=lost)))


@pytest.mark.parametrize("words", HOSTILE)
def test_no_name_and_no_log_line_breaks_out(guest_root: Path, words: str) -> None:
    report = reports.simulated(2, guest_root)
    rows = tuple(gpu.model_copy(update={"name": words, "uuid": words, "bdf": words}) for gpu in report.gpus)
    pairs = tuple(pair.model_copy(update={"reason": words, "evidence": (words + "1",)}) for pair in report.pairs)
    answer = reports.nccl(2)
    answer["runs"][0]["setting"] = answer["runs"][0]["reason"] = words
    answer["runs"][0]["log"]["warnings"] = [words]
    update = {"guest": words, "gpus": rows, "pairs": pairs, "reason": words, "remedy": words, "notes": (words,)}
    lines = {"new_log_lines": (words,), "log_excerpts": (words,), "nccl": NcclAnswer.model_validate(answer)}
    markup = page(changed(report, **update, **lines))
    markup.encode("utf-8")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", markup)
    read = Reader(markup.removeprefix("<!DOCTYPE html>\n"))
    assert {name for name, _ in read.elements}.isdisjoint({"script", "img", "iframe", "link", "object", "base"})
    assert not [key for _, attributes in read.elements for key in attributes if key.startswith("on")]


@pytest.mark.parametrize("gpus", [2, 16])
def test_nothing_is_loaded_from_elsewhere(guest_root: Path, gpus: int) -> None:
    markup = page(reports.large(gpus, guest_root))
    assert "default-src &#x27;none&#x27;" in markup
    assert not re.search(r"https?:|//[a-z]|@import|\bsrc=", markup)
    assert all(part.startswith("#") for part in re.findall(r'(?:href="|url\()([^")]*)', markup))


def test_references_within_the_page_have_their_ends(mixed: P2pReport) -> None:
    read = Reader(page(mixed).removeprefix("<!DOCTYPE html>\n"))
    names = [str(attributes["id"]) for _, attributes in read.elements if "id" in attributes]
    assert len(names) == len(set(names))
    wanted = {str(attributes["href"])[1:] for _, attributes in read.elements if "href" in attributes}
    wanted |= {str(attributes["aria-labelledby"]) for attributes in read.of("section")}
    assert wanted <= set(names)
    assert {key for key, _ in SECTIONS} == {attributes["id"] for attributes in read.of("section")}


def test_tables_and_pictures_have_names(mixed: P2pReport) -> None:
    markup = page(mixed)
    read = Reader(markup.removeprefix("<!DOCTYPE html>\n"))
    assert markup.count("<caption>") == sum(1 for _ in read.of("table"))
    assert all("scope" in head for head in read.of("th"))
    for picture in read.of("svg"):
        assert picture.get("aria-hidden") == "true" or (picture.get("role") == "img" and picture.get("aria-label"))


def test_sixteen_gpus_stay_below_a_megabyte(guest_root: Path) -> None:
    report = reports.large(16, guest_root)
    assert len(report.pairs) == 240
    assert len(page(report).encode()) < 1_000_000


def test_the_same_report_is_the_same_page(mixed: P2pReport) -> None:
    again = P2pReport.model_validate_json(mixed.model_dump_json())
    assert page(again) == page(mixed)


def test_text_and_attributes_are_escaped() -> None:
    assert text('<a href="x">') == "&lt;a href=&quot;x&quot;&gt;"
    assert tag("p", "<b>", tag("i", 1), None, class_='"') == '<p class="&quot;">&lt;b&gt;<i>1</i></p>'
    assert tag("input", checked=True, disabled=False, value=None) == "<input checked/>"
