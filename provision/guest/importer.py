"""Imports modules from texts in memory: the head of the program that :mod:`provision.guest.bundle` makes."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys

PACKAGE = "provision.guest.onboard"
PARENTS = ("provision", "provision.guest")


class TextImporter(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """``texts`` maps full module names to their source."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def] # noqa: ARG002
        if fullname not in self.texts:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=self.is_package(fullname))

    def is_package(self, fullname: str) -> bool:
        return fullname == PACKAGE or fullname in PARENTS

    def get_code(self, fullname):  # type: ignore[no-untyped-def]
        """Compile under a name that a traceback shows."""
        return compile(self.texts[fullname], f"pvectl:{fullname}", "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str:
        return self.texts[fullname]

    @classmethod
    def install(cls, texts: dict[str, str]) -> None:
        """Put the texts in front of everything else that can be imported."""
        for name in PARENTS:
            if name not in sys.modules:
                texts.setdefault(name, "")
        sys.meta_path.insert(0, cls(texts))
