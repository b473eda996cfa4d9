"""Every rule of the doctor over documents: logs, listings, outputs of tools.

To add one: a module, a page of the same name beside it, a line here, a test.
"""

from __future__ import annotations

from provision.doctor.document_rules import (
    gpus_share_switch,
    kernel_log,
    listing_groups_merged,
    listing_moved,
    mapping_command,
    mapping_entry,
    nccl_cross_numa,
    nccl_hang,
    nccl_not_checked,
    nccl_p2p_distance,
    nccl_p2p_off,
    nccl_socket,
    nccl_topo_forced,
    nccl_version_mismatch,
    nccl_warning,
    nccl_wrong_data,
    slot_mixed_functions,
    start_log,
    vm_config_part,
)
from provision.doctor.rule import BundleRule, DocumentRule

DOCUMENT_RULES: tuple[DocumentRule, ...] = (
    start_log.RULE,
    mapping_entry.RULE,
    vm_config_part.RULE,
    slot_mixed_functions.RULE,
    kernel_log.RULE,
    nccl_wrong_data.RULE,
    nccl_warning.RULE,
    nccl_hang.RULE,
    nccl_version_mismatch.RULE,
    nccl_topo_forced.RULE,
    nccl_p2p_off.RULE,
    nccl_p2p_distance.RULE,
    nccl_socket.RULE,
    nccl_not_checked.RULE,
    nccl_cross_numa.RULE,
)

BUNDLE_RULES: tuple[BundleRule, ...] = (
    listing_moved.RULE,
    listing_groups_merged.RULE,
    mapping_command.RULE,
    gpus_share_switch.RULE,
)
"""Rules over several documents together."""
