"""Names by id, identity, the tree, BARs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.evidence import Unknown
from provision.pci.bars import memory_bar
from provision.pci.identity import identity, topological_path
from provision.pci.model import Bar, PciFunction
from provision.pci.model_names import class_name, is_geforce, model_name, vendor_name
from provision.pci.tree import Tree, is_multifunction

Make = Callable[..., PciFunction]


class TestNames:
    @pytest.mark.parametrize(
        ("ids", "name"),
        [
            ("10de:2bb5", "RTX PRO 6000 Blackwell Server Edition"),
            ("10DE:2BB1", "RTX PRO 6000 Blackwell Workstation Edition"),
            ("10de:2335", "H200 SXM 141GB"),
            ("10de:ffff", None),
            ("1002:2bb5", None),
            ("10de:", None),
            ("nonsense", None),
        ],
    )
    def test_model(self, ids: str, name: str | None) -> None:
        assert model_name(ids) == name

    def test_geforce(self) -> None:
        assert [is_geforce(ids) for ids in ("10de:2b85", "10de:2bb5", "10de:ffff")] == [True, False, None]

    def test_vendors_and_classes(self) -> None:
        assert (vendor_name(0x1A03), vendor_name(0x1234)) == ("ASPEED", "1234")
        assert (class_name(0x030200), class_name(0xFF0000), class_name(0x123400)) == (
            "3D controller", "unassigned class", "class 1234",
        )  # fmt: skip


class TestIdentity:
    def chain(self, fn: Make, **fields: object) -> list[PciFunction]:
        return [
            fn("0000:40:01.1", "root-port", root="pci0000:40", root_acpi_path="\\_SB_.S0D2"),
            fn(
                "0000:41:00.0", parent="0000:40:01.1", root="pci0000:40", root_acpi_path="\\_SB_.S0D2",
                ids="10de:2bb5", subsystem_vendor=0x10DE, subsystem_device=0x204E, **fields,
            ),
        ]  # fmt: skip

    def test_path_and_serial(self, fn: Make) -> None:
        functions = self.chain(fn, dsn="0011223344556677")
        found = identity(functions[1], functions)
        assert not isinstance(found, Unknown)
        assert (found.ids, found.subsystem_ids, found.dsn) == ("10de:2bb5", "10de:204e", "0011223344556677")
        assert found.path == "\\_SB_.S0D2/01.1/00.0"
        assert "," not in found.short()

    @pytest.mark.parametrize("dsn", [None, "0" * 16, "f" * 16])
    def test_a_serial_that_says_nothing(self, fn: Make, dsn: str | None) -> None:
        functions = self.chain(fn, dsn=dsn)
        found = identity(functions[1], functions)
        assert not isinstance(found, Unknown)
        assert found.dsn is None

    def test_an_unreadable_serial_is_unknown(self, fn: Make) -> None:
        functions = self.chain(fn, dsn=Unknown(unknown="only 64 bytes", supply="as root"))
        found = identity(functions[1], functions)
        assert isinstance(found, Unknown)
        assert "0000:41:00.0" in found.unknown

    def test_unreadable_ids_and_paths_are_unknown(self, fn: Make) -> None:
        functions = self.chain(fn)
        blind = functions[1].model_copy(update={"subsystem_device": Unknown(unknown="denied")})
        assert isinstance(identity(blind, functions), Unknown)
        unnamed = functions[1].model_copy(update={"root_acpi_path": Unknown(unknown="denied")})
        assert isinstance(identity(unnamed, functions), Unknown)
        unread = functions[1].model_copy(update={"config": Unknown(unknown="denied")})
        assert isinstance(identity(unread, functions), Unknown)

    def test_a_host_bridge_without_a_name(self, fn: Make) -> None:
        first, other = fn("0000:00:02.0", root="pci0000:00"), fn("0000:40:02.0", root="pci0000:40")
        assert topological_path(first, Tree([first])) == "pci0000:00/02.0"
        assert isinstance(topological_path(other, Tree([other])), Unknown)

    def test_a_missing_bridge(self, fn: Make) -> None:
        functions = self.chain(fn)
        assert isinstance(identity(functions[1], functions[1:]), Unknown)


class TestTree:
    def test_a_loop_of_parents_ends(self, fn: Make) -> None:
        one, two = fn("0000:01:00.0", parent="0000:02:00.0"), fn("0000:02:00.0", parent="0000:01:00.0")
        assert [above.bdf for above in Tree([one, two]).ancestors(one)] == ["0000:02:00.0"]

    def test_orphans_stand_below_their_host_bridge(self, fn: Make) -> None:
        orphan = fn("0000:05:00.0", parent="0000:00:09.0", root="pci0000:00")
        assert Tree([orphan]).below_root("pci0000:00") == (orphan,)

    def test_odd_root_names_come_last(self, fn: Make) -> None:
        functions = [fn("0000:01:00.0", root=""), fn("0001:00:00.0", root="pci0001:00"), fn("0000:40:00.0")]
        assert Tree(functions).roots() == ("pci0000:40", "pci0001:00", "")

    @pytest.mark.parametrize("flag", [True, False])
    def test_a_lone_function_has_its_register(self, fn: Make, flag: bool) -> None:
        one = fn("0000:01:00.0", multifunction=flag)
        assert is_multifunction(one, Tree([one])) is flag

    def test_slots_with_several_functions(self, fn: Make) -> None:
        one, two = fn("0000:01:00.0"), fn("0000:01:00.1")
        assert is_multifunction(one, Tree([one, two])) is True
        assert is_multifunction(two, Tree([two])) is True
        blind = one.model_copy(update={"config": Unknown(unknown="denied")})
        assert isinstance(is_multifunction(blind, Tree([blind])), Unknown)


class TestMemoryBar:
    @pytest.mark.parametrize("index", [1, 2])
    def test_the_second_memory_bar(self, fn: Make, index: int) -> None:
        bars = (
            Bar(index=0, start=0x1000, size=64 << 20),
            Bar(index=index, start=0x2000, size=128 << 30),
            Bar(index=5, start=0x3000, size=128, is_io=True),
        )
        found = memory_bar(fn("0000:01:00.0", bars=bars))
        assert found is not None
        assert not isinstance(found, Unknown)
        assert found.size == 128 << 30

    def test_none_and_unknown(self, fn: Make) -> None:
        assert memory_bar(fn("0000:01:00.0", bars=())) is None
        assert isinstance(memory_bar(fn("0000:01:00.0", bars=Unknown(unknown="denied"))), Unknown)
