"""The kernel's grouping rules, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provision.evidence import Unknown
from provision.pci.grouping import (
    KernelOptions,
    compare_present,
    options_for,
    predict_groups,
    predict_numbers,
    present_options,
)
from provision.pci.model import PciFunction

Make = Callable[..., PciFunction]
ON = KernelOptions()
FULL = 0x5F
NOT_READ = Unknown(unknown="only 64 bytes of configuration space could be read", supply="take the capture as root")


def groups(functions: Sequence[PciFunction], options: KernelOptions = ON) -> tuple[str, ...]:
    """Groups as one string each, without the domain."""
    predicted = predict_groups(functions, options)
    assert not isinstance(predicted, Unknown), predicted
    return tuple(" ".join(bdf.removeprefix("0000:") for bdf in group) for group in predicted)


def cmdline(text: str, **more: Any) -> KernelOptions:
    return KernelOptions.from_cmdline(text, "AuthenticAMD", **more)


def two_cards(fn: Make, acs: Any = FULL, **port: Any) -> list[PciFunction]:
    """Two root ports, each with a card of two functions."""
    return [
        fn("0000:00:01.1", "root-port", acs=acs, **port),
        fn("0000:00:01.2", "root-port", acs=acs, **port),
        fn("0000:01:00.0", parent="0000:00:01.1", ids="10de:2bb1"),
        fn("0000:01:00.1", parent="0000:00:01.1", ids="10de:22e8"),
        fn("0000:02:00.0", parent="0000:00:01.2", ids="10de:2bb1"),
        fn("0000:02:00.1", parent="0000:00:01.2", ids="10de:22e8"),
    ]


class TestRules:
    def test_ports_with_acs_isolate_cards_and_a_cards_functions_stay_together(self, fn: Make) -> None:
        assert groups(two_cards(fn)) == ("00:01.1", "00:01.2", "01:00.0 01:00.1", "02:00.0 02:00.1")

    def test_functions_with_acs_of_their_own_are_apart(self, fn: Make) -> None:
        functions = [
            fn("0000:00:01.0", "root-port", acs=FULL),
            fn("0000:01:00.0", parent="0000:00:01.0", acs=0x0C),
            fn("0000:01:00.1", parent="0000:00:01.0", acs=0x0C),
        ]
        assert groups(functions) == ("00:01.0", "01:00.0", "01:00.1")

    def test_a_port_without_acs_joins_what_is_below_it(self, fn: Make) -> None:
        functions = [
            fn("0000:00:03.0", "root-port", acs=FULL),
            fn("0000:00:04.0", "root-port"),
            fn("0000:01:00.0", parent="0000:00:03.0"),
            fn("0000:02:00.0", parent="0000:00:04.0"),
        ]
        assert groups(functions) == ("00:03.0", "00:04.0 02:00.0", "01:00.0")

    def test_multifunction_ports_without_acs_join_everything_below_all_of_them(self, fn: Make) -> None:
        functions = [
            fn("0000:00:1c.0", "root-port", multifunction=True),
            fn("0000:00:1c.4", "root-port", multifunction=True),
            fn("0000:01:00.0", parent="0000:00:1c.0"),
            fn("0000:02:00.0", parent="0000:00:1c.4"),
        ]
        assert groups(functions) == ("00:1c.0 00:1c.4 01:00.0 02:00.0",)

    def test_a_dummy_host_bridge_is_not_drawn_into_its_ports(self, fn: Make) -> None:
        functions = [
            fn("0000:40:01.0", None, class_code=0x060000),
            fn("0000:40:01.1", "root-port", acs=FULL, multifunction=True),
            fn("0000:41:00.0", parent="0000:40:01.1", root="pci0000:40"),
        ]
        assert groups(functions) == ("40:01.0", "40:01.1", "41:00.0")

    def test_conventional_functions_of_one_slot_stay_together(self, fn: Make) -> None:
        functions = [fn("0000:00:14.0", None), fn("0000:00:14.3", None), fn("0000:00:15.0", None)]
        assert groups(functions) == ("00:14.0 00:14.3", "00:15.0")

    def test_switch_ports_with_acs(self, fn: Make) -> None:
        assert groups(switch(fn, FULL)) == ("00:01.0", "01:00.0", "02:00.0", "02:01.0", "03:00.0", "04:00.0")

    def test_switch_ports_without_acs_join_their_own_cards(self, fn: Make) -> None:
        assert groups(switch(fn, None)) == ("00:01.0", "01:00.0", "02:00.0 03:00.0", "02:01.0 04:00.0")

    def test_a_root_port_without_acs_joins_the_whole_switch(self, fn: Make) -> None:
        functions = switch(fn, FULL, root_acs=None)
        assert groups(functions) == ("00:01.0 01:00.0 02:00.0 02:01.0 03:00.0 04:00.0",)

    def test_behind_a_pcie_to_pci_bridge_everything_has_the_bridges_id(self, fn: Make) -> None:
        functions = [
            fn("0000:00:05.0", "root-port", acs=FULL),
            fn("0000:01:00.0", "pcie-to-pci-bridge", parent="0000:00:05.0"),
            fn("0000:02:00.0", None, parent="0000:01:00.0"),
            fn("0000:02:01.0", None, parent="0000:01:00.0"),
        ]
        assert groups(functions) == ("00:05.0", "01:00.0 02:00.0 02:01.0")

    def test_behind_a_conventional_bridge_everything_has_the_bridges_id(self, fn: Make) -> None:
        functions = [
            fn("0000:00:1e.0", None, class_code=0x060401),
            fn("0000:01:00.0", None, parent="0000:00:1e.0"),
            fn("0000:01:01.0", None, parent="0000:00:1e.0"),
        ]
        assert groups(functions) == ("00:1e.0 01:00.0 01:01.0",)

    def test_virtual_functions_have_groups_of_their_own_and_come_last(self, fn: Make) -> None:
        functions = [
            fn("0000:00:01.0", "root-port", acs=FULL),
            fn("0000:01:00.0", parent="0000:00:01.0"),
            fn("0000:01:00.1", parent="0000:00:01.0"),
            fn("0000:01:00.2", parent="0000:00:01.0", physfn="0000:01:00.0", config=NOT_READ),
            fn("0000:02:00.0", parent="0000:00:01.0", physfn="0000:01:00.0", config=NOT_READ),
            fn("0000:00:02.0", None),
        ]
        assert groups(functions) == ("00:01.0", "00:02.0", "01:00.0 01:00.1", "01:00.2", "02:00.0")

    def test_what_is_behind_a_vmd_has_its_id(self, fn: Make) -> None:
        functions = [
            fn("0000:00:0e.0", "integrated-endpoint"),
            fn("10000:e0:06.0", "root-port", acs=FULL, root="pci10000:e0", dma_proxy="0000:00:0e.0"),
            fn("10000:e1:00.0", parent="10000:e0:06.0", root="pci10000:e0", dma_proxy="0000:00:0e.0"),
        ]
        assert predict_groups(functions, ON) == (("0000:00:0e.0", "10000:e0:06.0", "10000:e1:00.0"),)

    def test_capability_bits_that_are_missing_count_as_hard_wired(self, fn: Make) -> None:
        assert len(groups(two_cards(fn, acs=0x01))) == 4

    def test_without_an_iommu_there_are_no_groups(self, fn: Make) -> None:
        assert groups(two_cards(fn), KernelOptions(iommu_on=False)) == ()

    def test_a_bus_is_numbered_before_the_buses_below_it(self, fn: Make) -> None:
        functions = [
            fn("0000:00:01.0", "root-port", acs=FULL),
            fn("0000:01:00.0", parent="0000:00:01.0"),
            fn("0000:00:02.0", None),
            fn("0000:80:00.0", None),
        ]
        assert groups(functions) == ("00:01.0", "00:02.0", "01:00.0", "80:00.0")


def switch(fn: Make, acs: int | None, root_acs: int | None = FULL) -> list[PciFunction]:
    return [
        fn("0000:00:01.0", "root-port", acs=root_acs),
        fn("0000:01:00.0", "upstream-port", parent="0000:00:01.0"),
        fn("0000:02:00.0", "downstream-port", parent="0000:01:00.0", acs=acs),
        fn("0000:02:01.0", "downstream-port", parent="0000:01:00.0", acs=acs),
        fn("0000:03:00.0", parent="0000:02:00.0"),
        fn("0000:04:00.0", parent="0000:02:01.0"),
    ]


class TestQuirks:
    def pch(self, fn: Make, ids: str) -> list[PciFunction]:
        return [
            fn("0000:00:1c.0", "root-port", multifunction=True, ids=ids),
            fn("0000:00:1c.4", "root-port", multifunction=True, ids=ids),
            fn("0000:01:00.0", parent="0000:00:1c.0"),
            fn("0000:02:00.0", parent="0000:00:1c.4"),
        ]

    def test_a_listed_root_port_isolates(self, fn: Make) -> None:
        assert len(groups(self.pch(fn, "8086:8c10"))) == 4

    def test_an_unlisted_one_does_not(self, fn: Make) -> None:
        assert len(groups(self.pch(fn, "8086:9999"))) == 1

    def test_the_table_can_be_left_out(self, fn: Make) -> None:
        assert len(groups(self.pch(fn, "8086:8c10"), KernelOptions(use_quirks=False))) == 1

    def test_intel_integrated_endpoints_are_apart(self, fn: Make) -> None:
        functions = [
            fn("0000:00:1f.0", "integrated-endpoint", ids="8086:0001"),
            fn("0000:00:1f.3", "integrated-endpoint", ids="8086:0002"),
        ]
        assert len(groups(functions)) == 2

    def test_multifunction_nics_in_the_table_are_apart(self, fn: Make) -> None:
        functions = [
            fn("0000:00:01.0", "root-port", acs=FULL),
            fn("0000:01:00.0", parent="0000:00:01.0", ids="8086:1521"),
            fn("0000:01:00.1", parent="0000:00:01.0", ids="8086:1521"),
        ]
        assert groups(functions) == ("00:01.0", "01:00.0", "01:00.1")

    def test_the_amd_southbridge(self, fn: Make) -> None:
        functions = [fn("0000:00:14.0", None, ids="1002:4385"), fn("0000:00:14.1", None, ids="1002:439c")]
        assert len(groups(functions)) == 2


class TestParameters:
    def test_override_splits_ports_without_the_capability(self, fn: Make) -> None:
        functions = two_cards(fn, acs=None, multifunction=True)
        assert len(groups(functions)) == 1
        assert groups(functions, cmdline("pcie_acs_override=downstream")) == (
            "00:01.1", "00:01.2", "01:00.0 01:00.1", "02:00.0 02:00.1",
        )  # fmt: skip
        assert len(groups(functions, cmdline("pcie_acs_override=downstream,multifunction"))) == 6

    def test_override_by_id(self, fn: Make) -> None:
        functions = two_cards(fn, acs=None, ids="1022:1483")
        assert len(groups(functions, cmdline("pcie_acs_override=id:1022:1483"))) == 4
        assert len(groups(functions, cmdline("pcie_acs_override=id:1022:1484"))) == 1

    def test_override_never_touches_a_port_with_the_capability(self, fn: Make) -> None:
        functions = two_cards(fn)
        assert groups(functions) == groups(functions, cmdline("pcie_acs_override=downstream"))

    def test_override_never_touches_conventional_functions(self, fn: Make) -> None:
        functions = [fn("0000:00:14.0", None), fn("0000:00:14.3", None)]
        assert len(groups(functions, cmdline("pcie_acs_override=downstream,multifunction"))) == 1

    def test_override_of_an_unreadable_port_is_undecided(self, fn: Make) -> None:
        functions = two_cards(fn, acs=NOT_READ)
        assert isinstance(predict_groups(functions, cmdline("pcie_acs_override=downstream")), Unknown)

    def test_config_acs_with_all_bits_merges(self, fn: Make) -> None:
        functions = two_cards(fn)
        assert groups(functions, cmdline("pci=config_acs=0000000@0000:00:01.1")) == (
            "00:01.1 01:00.0 01:00.1", "00:01.2", "02:00.0 02:00.1",
        )  # fmt: skip

    def test_config_acs_by_id_and_for_all(self, fn: Make) -> None:
        functions = two_cards(fn)
        assert len(groups(functions, cmdline("pci=config_acs=0000000@pci:1022:0001"))) == 1
        assert len(groups(functions, cmdline("pci=config_acs=0000000@pci:0:0"))) == 1
        assert len(groups(functions, cmdline("pci=config_acs=0000000@pci:1022:0002"))) == 4

    def test_config_acs_by_path_through_a_bridge(self, fn: Make) -> None:
        functions = switch(fn, FULL)
        merged = groups(functions, cmdline("pci=config_acs=0000000@0:1:00.0/00.0"))
        assert merged == ("00:01.0", "01:00.0", "02:00.0 03:00.0", "02:01.0", "04:00.0")
        assert groups(functions, cmdline("pci=config_acs=0000000@1:00.0/01.0/00.0")) == groups(functions)

    def test_bits_left_to_the_firmware_are_undecided(self, fn: Make) -> None:
        predicted = predict_groups(two_cards(fn), cmdline("pci=config_acs=xx111xx@0000:00:01.1"))
        assert isinstance(predicted, Unknown)
        assert "0000:00:01.1" in predicted.unknown
        assert "seven bits" in predicted.supply

    def test_one_cleared_bit_decides_whatever_the_firmware_set(self, fn: Make) -> None:
        assert len(groups(two_cards(fn), cmdline("pci=config_acs=xx0xxxx@0000:00:01.1"))) == 3

    def test_bits_the_port_does_not_offer_do_not_matter(self, fn: Make) -> None:
        assert len(groups(two_cards(fn, acs=0x0C), cmdline("pci=config_acs=x0x11xx@pci:0:0"))) == 4

    def test_known_firmware_values_decide(self, fn: Make) -> None:
        on = cmdline("pci=config_acs=xx111xx@0000:00:01.1", firmware_acs={"0000:00:01.1": 0x01})
        off = cmdline("pci=config_acs=xx111xx@0000:00:01.1", firmware_acs={"0000:00:01.1": 0x00})
        assert len(groups(two_cards(fn), on)) == 4
        assert len(groups(two_cards(fn), off)) == 3

    def test_disable_acs_redir_merges(self, fn: Make) -> None:
        options = cmdline("pci=disable_acs_redir=0000:00:01.1;0000:00:01.2")
        assert groups(two_cards(fn), options) == ("00:01.1 00:01.2 01:00.0 01:00.1 02:00.0 02:00.1",)

    def test_ports_with_dword_registers_ignore_config_acs(self, fn: Make) -> None:
        functions = two_cards(fn, acs=0x0F, ids="8086:a110")
        assert len(groups(functions, cmdline("pci=config_acs=0000000@pci:0:0"))) == 4


class TestHonesty:
    def test_an_unreadable_port_makes_the_result_unknown(self, fn: Make) -> None:
        predicted = predict_groups(two_cards(fn, acs=NOT_READ), ON)
        assert isinstance(predicted, Unknown)
        assert "ACS" in predicted.unknown
        assert predicted.supply == "take the capture as root"

    def test_an_unknown_port_type_too(self, fn: Make) -> None:
        functions = two_cards(fn)
        functions[0] = functions[0].model_copy(update={"config": NOT_READ})
        assert isinstance(predict_groups(functions, ON), Unknown)

    def test_what_cannot_change_the_result_may_be_unknown(self, fn: Make) -> None:
        functions = [
            fn("0000:00:01.0", "root-port", acs=FULL),
            fn("0000:01:00.0", parent="0000:00:01.0", config=NOT_READ),
        ]
        assert groups(functions) == ("00:01.0", "01:00.0")

    def test_an_open_bridge_below_an_unreadable_port_is_undecided(self, fn: Make) -> None:
        functions = switch(fn, None)
        functions[0] = fn("0000:00:01.0", "root-port", acs=NOT_READ)
        assert isinstance(predict_groups(functions, ON), Unknown)

    def test_functions_of_a_slot_with_unknown_acs(self, fn: Make) -> None:
        functions = [
            fn("0000:00:01.0", "root-port", acs=FULL),
            fn("0000:01:00.0", parent="0000:00:01.0"),
            fn("0000:01:00.1", parent="0000:00:01.0", acs=NOT_READ),
        ]
        assert isinstance(predict_groups(functions, ON), Unknown)

    def test_a_bridge_that_was_not_captured(self, fn: Make) -> None:
        assert isinstance(predict_groups(two_cards(fn)[1:], ON), Unknown)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(blind=st.sets(st.integers(0, 5)), acs=st.sampled_from((FULL, 0x0C, None)))
    def test_removing_facts_never_changes_an_answer(self, fn: Make, blind: set[int], acs: int | None) -> None:
        functions = switch(fn, acs)
        full = predict_groups(functions, ON)
        dimmed = [
            one.model_copy(update={"config": NOT_READ}) if index in blind else one
            for index, one in enumerate(functions)
        ]
        answer = predict_groups(dimmed, ON)
        assert isinstance(answer, Unknown) or answer == full


def host(functions: Sequence[PciFunction], numbers: Sequence[int | None], text: str = "quiet", on: bool = True) -> Any:
    placed = tuple(fn.model_copy(update={"iommu_group": number}) for fn, number in zip(functions, numbers, strict=True))
    return SimpleNamespace(
        pci=placed,
        kernel=SimpleNamespace(running_cmdline=text, cpu_vendor="AuthenticAMD", release="6.14.8-2-pve"),
        iommu=SimpleNamespace(units=("ivhd0",) if on else (), firmware_table="IVRS"),
    )


class TestPresent:
    def test_equal(self, fn: Make) -> None:
        assert compare_present(host(two_cards(fn), [0, 1, 2, 2, 3, 3])).result == "equal"

    def test_not_reproduced_names_the_difference(self, fn: Make) -> None:
        comparison = compare_present(host(two_cards(fn), [0, 1, 2, 2, 2, 2]))
        assert comparison.result == "not-reproduced"
        assert any("0000:01:00.0 0000:01:00.1 0000:02:00.0" in line for line in comparison.details)

    def test_a_quirk_explains(self, fn: Make) -> None:
        functions = TestQuirks().pch(fn, "8086:8c10")
        comparison = compare_present(host(functions, [0, 1, 2, 3]))
        assert comparison.result == "quirk"

    @pytest.mark.parametrize("what", ["acs", "group", "cmdline", "units"])
    def test_unknown(self, fn: Make, what: str) -> None:
        model = host(two_cards(fn, acs=NOT_READ if what == "acs" else FULL), [0, 1, 2, 2, 3, 3])
        if what == "group":
            model.pci = (model.pci[0].model_copy(update={"iommu_group": NOT_READ}), *model.pci[1:])
        if what == "cmdline":
            model.kernel.running_cmdline = NOT_READ
        if what == "units":
            model.iommu.units = NOT_READ
            model.pci = tuple(function.model_copy(update={"iommu_group": None}) for function in model.pci)
        assert compare_present(model).result == "unknown"

    def test_groups_show_that_the_iommu_is_on(self, fn: Make) -> None:
        """A pasted listing with groups names no units."""
        model = host(two_cards(fn, acs=FULL), [0, 1, 2, 2, 3, 3])
        model.iommu.units = NOT_READ
        assert compare_present(model).result == "equal"

    def test_functions_that_no_iommu_covers_stay_outside(self, fn: Make) -> None:
        functions = [fn("0000:00:00.0", None), fn("0000:00:00.2", None), *two_cards(fn)]
        model = host(functions, [None, None, 0, 1, 2, 2, 3, 3])
        assert compare_present(model).result == "equal"
        predicted = predict_groups(model.pci, options_for(model, "quiet"))
        assert predicted == predict_groups(two_cards(fn), ON)

    def test_off_and_no_groups_is_equal(self, fn: Make) -> None:
        assert compare_present(host(two_cards(fn), [None] * 6, on=False)).result == "equal"

    def test_bits_in_force_now_are_read_from_the_registers(self, fn: Make) -> None:
        functions = two_cards(fn, acs=FULL, control=0x00)
        functions[1] = fn("0000:00:01.2", "root-port", acs=FULL)
        model = host(functions, [0, 1, 0, 0, 2, 2], "pci=config_acs=xx0xxxx@0000:00:01.1")
        assert compare_present(model).result == "equal"
        options = present_options(model)
        assert not isinstance(options, Unknown)
        assert options.firmware_acs == {"0000:00:01.1": 0}


class TestNumbers:
    def test_a_merge_shifts_all_later_numbers(self, fn: Make) -> None:
        model = host(two_cards(fn), [0, 1, 2, 2, 3, 3])
        numbers = predict_numbers(model, options_for(model, "pci=config_acs=0000000@0000:00:01.1"))
        assert numbers == {
            "0000:00:01.1": 0, "0000:01:00.0": 0, "0000:01:00.1": 0,
            "0000:00:01.2": 1, "0000:02:00.0": 2, "0000:02:00.1": 2,
        }  # fmt: skip

    def test_the_order_of_iommu_units_is_learned_from_the_present(self, fn: Make) -> None:
        functions = [fn("0000:00:01.0", None), fn("0000:40:01.0", None)]
        model = host(functions, [1, 0])
        assert predict_numbers(model, options_for(model, "quiet")) == {"0000:40:01.0": 0, "0000:00:01.0": 1}

    def test_the_order_of_host_bridges_of_one_unit_is_learned_from_the_present(self, fn: Make) -> None:
        """Firmware lists bridge 80 in front of bridge 40, and one unit serves all: seen on QEMU with two expanders."""
        functions = [
            fn(bdf, None, iommu_unit="dmar0")
            for bdf in ("0000:00:01.0", "0000:40:01.0", "0000:40:02.0", "0000:80:01.0")
        ]
        model = host(functions, [0, 2, 3, 1])
        assert predict_numbers(model, options_for(model, "quiet")) == {
            "0000:00:01.0": 0, "0000:80:01.0": 1, "0000:40:01.0": 2, "0000:40:02.0": 3,
        }  # fmt: skip

    def test_numbers_out_of_order_are_not_predicted(self, fn: Make) -> None:
        model = host(two_cards(fn), [1, 0, 2, 2, 3, 3])
        assert isinstance(predict_numbers(model, options_for(model, "quiet")), Unknown)

    def test_gaps_are_not_predicted(self, fn: Make) -> None:
        model = host(two_cards(fn), [0, 1, 2, 2, 7, 7])
        assert isinstance(predict_numbers(model, options_for(model, "quiet")), Unknown)

    def test_a_present_that_is_not_reproduced_has_no_future(self, fn: Make) -> None:
        model = host(two_cards(fn), [0, 1, 2, 2, 2, 2])
        assert isinstance(predict_numbers(model, options_for(model, "quiet")), Unknown)

    def test_an_unknown_future(self, fn: Make) -> None:
        model = host(two_cards(fn), [0, 1, 2, 2, 3, 3])
        assert isinstance(predict_numbers(model, options_for(model, "pci=config_acs=xx111xx@pci:0:0")), Unknown)

    def test_numbers_are_not_predicted_while_the_iommu_is_off(self, fn: Make) -> None:
        model = host(two_cards(fn), [None] * 6, "amd_iommu=off", on=False)
        assert isinstance(predict_numbers(model, options_for(model, "quiet")), Unknown)

    def test_without_an_iommu_there_are_no_numbers(self, fn: Make) -> None:
        model = host(two_cards(fn), [0, 1, 2, 2, 3, 3])
        assert predict_numbers(model, options_for(model, "amd_iommu=off")) == {}
