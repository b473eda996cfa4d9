"""The planners, in the order in which their changes are carried out.

To add one: a module with a function from :class:`provision.plan.context.Context` to
:class:`provision.plan.context.Outcome`, a line here, a test.
"""

from __future__ import annotations

from collections.abc import Callable

from provision.plan.context import Context, Outcome
from provision.plan.planners.binding import plan_binding
from provision.plan.planners.boot_cmdline import plan_boot_cmdline
from provision.plan.planners.mapping import plan_mapping
from provision.plan.planners.mapping_unit import plan_mapping_unit
from provision.plan.planners.nic_names import plan_nic_names
from provision.plan.planners.onboot import plan_onboot
from provision.plan.planners.vm import plan_vm

Planner = Callable[[Context], Outcome]

PLANNERS: tuple[tuple[str, Planner], ...] = (
    ("boot-cmdline", plan_boot_cmdline),
    ("binding", plan_binding),
    ("nic-names", plan_nic_names),
    ("mapping", plan_mapping),
    ("mapping-unit", plan_mapping_unit),
    ("vm", plan_vm),
    ("onboot", plan_onboot),
)
