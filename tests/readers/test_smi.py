"""nvidia-smi in all its forms gives the same facts of a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.evidence import Unknown
from provision.readers import smi_query, smi_table, smi_xml
from provision.readers.smi_model import FACTS, SmiGpu, SmiReading, bdf_of
from provision.readers.smi_paths import FACT_AT

PASTES = Path(__file__).parents[1] / "data" / "pastes"
GUEST = Path(__file__).parents[1] / "data" / "guest-h200x2"


def text_of(name: str) -> str:
    return (PASTES / f"{name}.txt").read_text(encoding="utf-8")


def known(reading: object) -> SmiReading:
    assert isinstance(reading, SmiReading), reading
    return reading


def values(gpu: SmiGpu) -> dict[str, str]:
    return {name: mention.text for name, mention in gpu.facts.items()}


def test_every_fact_has_a_name() -> None:
    assert set(FACT_AT.values()) <= set(FACTS)


def test_the_query_of_two_gpus() -> None:
    reading = known(smi_query.read(text_of("nvidia-smi-query")))
    assert (reading.driver_version, reading.cuda_version, reading.attached) == ("580.65.06", "13.0", 2)
    assert [gpu.bdf for gpu in reading.gpus] == ["0000:41:00.0", "0000:61:00.0"]
    assert not reading.is_cut
    assert reading.is_guest
    first = reading.gpus[0]
    assert first.number("link_gen_current") == 1
    assert first.number("link_gen_max") == 5
    assert first.number("link_width_current") == 16
    assert first.number("bar1_mib") == 131072
    assert first.text("performance_state") == "P8"
    assert isinstance(first.text("host_vgpu"), Unknown)
    assert isinstance(first.text("fabric_state"), Unknown)
    lines = text_of("nvidia-smi-query").splitlines()
    assert "131072 MiB" in lines[first.line_of("bar1_mib") - 1]


def test_a_query_that_ends_early_is_cut() -> None:
    text = text_of("nvidia-smi-query")
    reading = known(smi_query.read(text[: text.index("GPU 00000000:61")]))
    assert len(reading.gpus) == 1
    assert reading.is_cut
    inside = known(smi_query.read(text[: text.index("BAR1", 2500)]))
    assert inside.is_cut
    assert len(inside.gpus) == 2


def test_lines_through_grep_belong_to_a_gpu_of_no_name() -> None:
    reading = known(smi_query.read(text_of("nvidia-smi-query-grep")))
    (gpu,) = reading.gpus
    assert (gpu.bdf, gpu.index) == (None, None)
    assert gpu.number("bar1_mib") == 256
    assert not reading.is_cut


def test_the_table() -> None:
    reading = known(smi_table.read(text_of("nvidia-smi-table")))
    assert (reading.driver_version, reading.cuda_version) == ("580.65.06", "13.0")
    good, bad = reading.gpus
    assert (good.index, good.bdf) == (0, "0000:41:00.0")
    assert values(good)["name"] == "NVIDIA Example GPU"
    assert good.number("framebuffer_mib") == 97887
    assert good.text("mig") == "Disabled"
    assert good.errors == ()
    assert "ecc_uncorrected" in bad.errors


def test_the_table_of_an_old_driver() -> None:
    reading = known(smi_table.read(text_of("nvidia-smi-table-old")))
    (gpu,) = reading.gpus
    assert (gpu.bdf, reading.driver_version) == ("0000:0b:00.0", "470.82.01")
    assert gpu.number("framebuffer_mib") == 12053
    assert isinstance(gpu.text("mig"), Unknown)


def test_the_table_with_mig_and_the_new_names_of_versions() -> None:
    reading = known(smi_table.read(text_of("nvidia-smi-table-mig")))
    (gpu,) = reading.gpus
    assert (reading.driver_version, reading.cuda_version) == ("590.11.01", "13.1")
    assert gpu.text("mig") == "Enabled"


def test_list_csv_and_version() -> None:
    listed = known(smi_table.read(text_of("nvidia-smi-table-list")))
    assert [values(gpu)["uuid"][-2:] for gpu in listed.gpus] == ["41", "61"]
    rows = known(smi_table.read(text_of("nvidia-smi-table-csv")))
    assert [gpu.bdf for gpu in rows.gpus] == ["0000:41:00.0", "0000:61:00.0"]
    assert rows.gpus[1].number("link_width_current") == 8
    assert rows.driver_version == "580.65.06"
    version = known(smi_table.read(text_of("nvidia-smi-table-version")))
    assert (version.driver_version, version.cuda_version, version.gpus) == ("610.10.01", "13.3", ())


def test_rows_of_processes_and_pages_are_no_gpus() -> None:
    """A query of everything has columns that begin alike (``retired_pages.pending``) and is one of GPUs."""
    gpus = "name, pci.bus_id, retired_pages.pending\nNVIDIA Example GPU, 00000000:41:00.0, [N/A]\n"
    assert [gpu.bdf for gpu in known(smi_table.read(gpus)).gpus] == ["0000:41:00.0"]
    processes = "gpu_name, gpu_bus_id, pid\nNVIDIA Example GPU, 00000000:41:00.0, 77\n"
    pages = "gpu_name, gpu_bus_id, retired_pages.address\nNVIDIA Example GPU, 00000000:41:00.0, 0x1\n"
    assert isinstance(smi_table.read(processes), Unknown)
    assert isinstance(smi_table.read(pages), Unknown)


@pytest.mark.parametrize(
    ("name", "kind", "bdf"),
    [("no-devices", "no-devices", None), ("no-driver", "no-driver", None), ("lost", "gpu-lost", "0000:61:00.0")],
)
def test_what_it_prints_instead_of_an_answer(name: str, kind: str, bdf: str | None) -> None:
    (error,) = known(smi_table.read(text_of(f"nvidia-smi-table-{name}"))).errors
    assert (error.kind, error.bdf, error.line) == (kind, bdf, 1)


def test_xml() -> None:
    reading = known(smi_xml.read(text_of("nvidia-smi-xml")))
    (gpu,) = reading.gpus
    assert (gpu.bdf, reading.attached, reading.is_cut) == ("0000:41:00.0", 1, False)
    assert gpu.text("name") == "NVIDIA Example & Sons GPU"
    assert (gpu.number("link_width_current"), gpu.number("link_width_max")) == (8, 16)
    lines = text_of("nvidia-smi-xml").splitlines()
    assert "current_link_width" in lines[gpu.line_of("link_width_current") - 1]
    assert not reading.is_guest


def test_xml_of_an_old_document_type() -> None:
    reading = known(smi_xml.read(text_of("nvidia-smi-xml-old")))
    (gpu,) = reading.gpus
    assert isinstance(reading.driver_version, Unknown)
    assert isinstance(gpu.number("link_gen_max"), Unknown)
    assert gpu.number("framebuffer_mib") == 8192


def test_xml_that_was_cut_gives_what_there_is() -> None:
    text = text_of("nvidia-smi-xml")
    reading = known(smi_xml.read(text[: text.index("<fb_memory")]))
    (gpu,) = reading.gpus
    assert reading.is_cut
    assert gpu.number("link_width_current") == 8
    assert "framebuffer_mib" not in gpu.facts


def test_fewer_gpus_than_were_counted_is_a_cut_text() -> None:
    text = text_of("nvidia-smi-xml").replace("<attached_gpus>1<", "<attached_gpus>4<")
    assert known(smi_xml.read(text)).is_cut


BOMB = """<?xml version="1.0"?>
<!DOCTYPE nvidia_smi_log [
  <!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">
  <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
  <!ENTITY f SYSTEM "file:///etc/passwd">
]>
<nvidia_smi_log><gpu id="00000000:41:00.0"><product_name>&b;&f;</product_name></gpu></nvidia_smi_log>
"""


def test_no_entity_is_expanded() -> None:
    (gpu,) = known(smi_xml.read(BOMB)).gpus
    assert gpu.text("name") == "&b;&f;"


def test_a_deep_document_is_read_in_bounded_depth() -> None:
    text = "<nvidia_smi_log>" + "<a>" * 5000 + "<gpu id='00000000:41:00.0'/>"
    assert isinstance(smi_xml.read(text), SmiReading)


@pytest.mark.parametrize(
    ("text", "bdf"),
    [
        ("00000000:8D:00.0", "0000:8d:00.0"),
        ("0001:00:00.0", "0001:00:00.0"),
        ("41:00.0", "0000:41:00.0"),
        ("GPU0", None),
    ],
)
def test_addresses_are_written_as_linux_does(text: str, bdf: str | None) -> None:
    assert bdf_of(text) == bdf


def test_the_three_forms_of_one_machine_agree() -> None:
    """Recorded on one machine: text, XML and table."""
    files = {name: GUEST / name for name in ("smi-q.txt", "smi-q.xml", "smi.txt")}
    assert all(path.exists() for path in files.values())
    query = known(smi_query.read(files["smi-q.txt"].read_text()))
    xml = known(smi_xml.read(files["smi-q.xml"].read_text()))
    table = known(smi_table.read(files["smi.txt"].read_text()))
    assert [gpu.bdf for gpu in query.gpus] == [gpu.bdf for gpu in xml.gpus] == [gpu.bdf for gpu in table.gpus]
    steady = set(FACTS) - {"performance_state", "temperature_c", "framebuffer_used_mib", "bar1_used_mib"}
    for one, other in zip(query.gpus, xml.gpus, strict=True):
        both = steady & set(one.facts) & set(other.facts)
        assert {"name", "bar1_mib", "link_gen_max", "virtualization", "mig"} <= both
        differing = {
            fact
            for fact in both
            if one.facts[fact].text.removeprefix("0x") != other.facts[fact].text.removeprefix("0x")
        }
        assert differing == set()
    assert query.driver_version == xml.driver_version == table.driver_version
    assert not query.is_cut
    assert not xml.is_cut
