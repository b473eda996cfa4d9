"""An option of the NVIDIA module forces P2P past every check of the driver."""

from __future__ import annotations

import re

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.mention import Mention
from provision.readers.nvidia_params import NvidiaParams

ID = "guest-forcep2p"
_FORCED = re.compile(r"\b(?:RM)?ForceP2P(?:Type)?\s*=\s*(?:0[xX](?!0+\b)[0-9a-fA-F]{1,8}|(?!0+\b)\d{1,10})\b")


def check(document: Document, _model: HostModel) -> Outcome:
    if isinstance(document.reading, NvidiaParams):
        words = document.reading.text("RegistryDwords")
        if not isinstance(words, Mention):
            yield undecided(ID, words, "RegistryDwords of the NVIDIA module")
            return
        statements: tuple[Mention, ...] = (words,)
    else:
        statements = document.reading.statements
    forced = [each for each in statements if _FORCED.search(each.text)]
    if forced:
        options = ", ".join(dict.fromkeys(hit[0] for each in forced for hit in _FORCED.finditer(each.text)))
        yield found(
            ID,
            "warning",
            ("NVreg_RegistryDwords",),
            f"the NVIDIA module is told to force P2P ({options})",
            (quoted(document, each.line, each.text) for each in forced),
            "the driver skips its checks of architecture, model and platform: a pair that cannot reach each other "
            "reads OK, and loses data or hangs",
            "take the words out of NVreg_RegistryDwords, rebuild the initramfs and restart the guest",
            "policies.p2p: prove   # in the inventory: a clique on the host, and a proof",
            source="NVIDIA open-gpu-kernel-modules, nvrm_registry.h (ForceP2P), p2p_caps.c",
        )


RULE = DocumentRule(
    ID,
    "An option of the module forces P2P past every check",
    frozenset({"nvidia-params", "modprobe", "cmdline"}),
    check,
)
