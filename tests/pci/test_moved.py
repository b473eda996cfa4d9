"""Devices are known again by serial number, place, kind and company; what cannot be said is not said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from provision.evidence import Unknown
from provision.pci.model import PciFunction
from provision.pci.moved import Moves, compare

Make = Callable[..., PciFunction]
GPU = "10de:2bb5"


def moves(before: Sequence[PciFunction], after: Sequence[PciFunction]) -> Moves:
    found = compare(before, after)
    assert isinstance(found, Moves)
    return found


def pairs(found: Moves) -> dict[str, str]:
    return {match.before: match.after for match in (*found.moved, *found.stayed)}


def test_nothing_changed(fn: Make) -> None:
    host = [fn("0000:00:01.0", "root-port"), fn("0000:01:00.0", parent="0000:00:01.0", ids=GPU)]
    found = moves(host, host)
    assert not found.moved
    assert {match.by for match in found.stayed} == {"place in the tree"}


def test_a_serial_number_follows_the_card_to_another_slot(fn: Make) -> None:
    ports = [fn("0000:00:01.0", "root-port"), fn("0000:00:02.0", "root-port")]
    cards = [("0000:01:00.0", "0000:00:01.0"), ("0000:02:00.0", "0000:00:02.0")]
    before = [*ports, *(fn(bdf, parent=port, ids=GPU, dsn=f"{n:016x}") for n, (bdf, port) in enumerate(cards, 1))]
    after = [*ports, *(fn(bdf, parent=port, ids=GPU, dsn=f"{n:016x}") for n, (bdf, port) in enumerate(cards[::-1], 1))]
    found = moves(before, after)
    assert {(match.before, match.after, match.by) for match in found.moved} == {
        ("0000:01:00.0", "0000:02:00.0", "serial number"),
        ("0000:02:00.0", "0000:01:00.0", "serial number"),
    }


def test_another_card_of_the_same_kind_in_the_same_slot(fn: Make) -> None:
    port = fn("0000:00:01.0", "root-port")
    before = [port, fn("0000:01:00.0", parent=port.bdf, ids=GPU, dsn="1" * 16)]
    after = [port, fn("0000:01:00.0", parent=port.bdf, ids=GPU, dsn="2" * 16)]
    found = moves(before, after)
    assert (found.removed, found.added) == (("0000:01:00.0",), ("0000:01:00.0",))
    assert not found.ambiguous


def test_bus_numbers_move_below_the_same_port(fn: Make) -> None:
    def host(bus: int) -> list[PciFunction]:
        return [
            fn("0000:00:01.0", "root-port"),
            fn("0000:00:02.0", "root-port"),
            *(fn(f"0000:{bus:02x}:00.{n}", parent="0000:00:02.0", ids=GPU) for n in (0, 1)),
        ]

    found = moves(host(2), host(7))
    assert {(match.before, match.after, match.by) for match in found.moved} == {
        ("0000:02:00.0", "0000:07:00.0", "place in the tree"),
        ("0000:02:00.1", "0000:07:00.1", "place in the tree"),
    }


def test_host_bridges_are_known_by_their_acpi_names(fn: Make) -> None:
    def host(*roots: tuple[str, str]) -> list[PciFunction]:
        return [fn(f"0000:{bus}:00.0", ids=GPU, root=f"pci0000:{bus}", root_acpi_path=name) for bus, name in roots]

    found = moves(
        host(("20", "\\_SB_.S0D1"), ("40", "\\_SB_.S0D2")), host(("20", "\\_SB_.S0D2"), ("60", "\\_SB_.S0D1"))
    )
    assert pairs(found) == {"0000:20:00.0": "0000:60:00.0", "0000:40:00.0": "0000:20:00.0"}


def test_without_acpi_names_host_bridges_are_ranked_as_long_as_their_number_is_the_same(fn: Make) -> None:
    def host(*buses: str) -> list[PciFunction]:
        return [
            fn(f"0000:{bus}:00.0", ids=GPU, root=f"pci0000:{bus}", root_acpi_path=Unknown(unknown="text"))
            for bus in buses
        ]

    assert pairs(moves(host("00", "40", "80"), host("00", "50", "90"))) == {
        "0000:00:00.0": "0000:00:00.0",
        "0000:40:00.0": "0000:50:00.0",
        "0000:80:00.0": "0000:90:00.0",
    }
    found = moves(host("00", "40", "80"), host("00", "50"))
    assert pairs(found) == {"0000:00:00.0": "0000:00:00.0"}
    assert [(doubt.before, doubt.after) for doubt in found.ambiguous] == [
        (("0000:40:00.0", "0000:80:00.0"), ("0000:50:00.0",))
    ]


def flat(fn: Make, bdf: str, name: str, **fields: Any) -> PciFunction:
    """A line of plain lspci: a name, and no place in the tree."""
    return fn(bdf, ids="ffff:ffff", parent="?", root="", description=name, class_code=0x020000, **fields)


def test_names_alone(fn: Make) -> None:
    before = [flat(fn, "0000:01:00.0", "NIC A"), flat(fn, "0000:02:00.0", "NIC B")]
    after = [flat(fn, "0000:02:00.0", "NIC A"), flat(fn, "0000:03:00.0", "NIC B"), flat(fn, "0000:01:00.0", "GPU")]
    found = moves(before, after)
    assert pairs(found) == {"0000:01:00.0": "0000:02:00.0", "0000:02:00.0": "0000:03:00.0"}
    assert found.added == ("0000:01:00.0",)


def test_functions_of_one_slot_go_together(fn: Make) -> None:
    before = [flat(fn, "0000:c7:00.0", "dummy"), flat(fn, "0000:c8:00.0", "dummy"), flat(fn, "0000:c8:00.3", "USB")]
    after = [flat(fn, "0000:c8:00.0", "dummy"), flat(fn, "0000:c9:00.0", "dummy"), flat(fn, "0000:c9:00.3", "USB")]
    found = moves(before, after)
    assert pairs(found) == {
        "0000:c7:00.0": "0000:c8:00.0",
        "0000:c8:00.0": "0000:c9:00.0",
        "0000:c8:00.3": "0000:c9:00.3",
    }
    assert "functions of the same slot" in {match.by for match in found.moved}


def test_two_of_a_kind_are_ambiguous(fn: Make) -> None:
    before = [flat(fn, "0000:01:00.0", "GPU"), flat(fn, "0000:02:00.0", "GPU")]
    after = [flat(fn, "0000:02:00.0", "GPU"), flat(fn, "0000:03:00.0", "GPU")]
    found = moves(before, after)
    assert not pairs(found)
    assert [(doubt.before, doubt.after) for doubt in found.ambiguous] == [
        (("0000:01:00.0", "0000:02:00.0"), ("0000:02:00.0", "0000:03:00.0"))
    ]
    assert not found.added
    assert not found.removed


def test_two_of_a_kind_at_their_old_addresses(fn: Make) -> None:
    host = [flat(fn, "0000:01:00.0", "GPU"), flat(fn, "0000:02:00.0", "GPU")]
    assert {match.by for match in moves(host, host).stayed} == {"same address"}


def test_a_serial_number_that_says_nothing(fn: Make) -> None:
    """All zeros on both sides is no proof that these are the same card."""
    before = [fn("0000:01:00.0", parent="?", root="", ids=GPU, dsn="0" * 16)]
    after = [fn("0000:02:00.0", parent="?", root="", ids=GPU, dsn="0" * 16)]
    assert [match.by for match in moves(before, after).moved] == ["only one of its kind"]


def test_texts_that_name_devices_in_different_ways(fn: Make) -> None:
    found = compare([flat(fn, "0000:01:00.0", "GPU")], [fn("0000:01:00.0", ids=GPU)])
    assert isinstance(found, Unknown)
    assert "lspci" in found.supply


def test_every_function_is_accounted_for_once(fn: Make) -> None:
    before = [flat(fn, f"0000:0{n}:00.0", name) for n, name in enumerate("AABBCD", 1)]
    after = [flat(fn, f"0000:0{n}:00.0", name) for n, name in enumerate("ABBCCE", 2)]
    found = moves(before, after)
    was = [*pairs(found), *found.removed, *(bdf for doubt in found.ambiguous for bdf in doubt.before)]
    now = [*pairs(found).values(), *found.added, *(bdf for doubt in found.ambiguous for bdf in doubt.after)]
    assert sorted(was) == [fn.bdf for fn in before]
    assert sorted(now) == [fn.bdf for fn in after]
