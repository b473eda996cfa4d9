"""Secrets are read at the moment of use, from the environment or from a private file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from provision.errors import InventoryError
from provision.inventory.models import SecretRef


def read_secret(ref: SecretRef) -> str:
    """Return the secret that ``ref`` names, without its final line feed.

    Raises :class:`InventoryError` where it is missing, empty or in a file that others may read.
    """
    return _from_env(ref.env) if ref.env is not None else _from_file(Path(str(ref.file)).expanduser())


def _from_env(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise InventoryError(
            f"Unable to read a secret: the environment variable {name} is not set",
            f"set it: read -rs {name}; export {name}",
        )
    return value


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            # The mode of the file that is open, not of what may take its name meanwhile.
            mode = os.fstat(stream.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o007:
                raise InventoryError(
                    f"Unable to use the secret file {path}: every user of this machine can reach it "
                    f"(mode {stat.S_IMODE(mode):04o})",
                    f"chmod 600 {path}",
                )
            raw = stream.read(65536)
    except OSError as error:
        raise InventoryError(
            f"Unable to read the secret file {path}: {error.strerror}", "check the path and its permissions"
        ) from None
    return _one_line(raw, path)


def _one_line(raw: bytes, path: Path) -> str:
    try:
        value = raw.decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise InventoryError(
            f"Unable to use the secret file {path}: it is not text", "write the secret as text"
        ) from None
    if not value.strip():
        raise InventoryError(f"Unable to use the secret file {path}: it is empty", "write the secret into it")
    if "\n" in value:
        raise InventoryError(
            f"Unable to use the secret file {path}: it has more than one line", "keep one secret on one line in it"
        )
    return value
