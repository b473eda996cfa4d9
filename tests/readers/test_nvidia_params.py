"""/proc/driver/nvidia/params."""

from __future__ import annotations

from pathlib import Path

from provision.evidence import Unknown
from provision.readers import nvidia_params
from provision.readers.mention import Mention
from provision.readers.nvidia_params import NvidiaParams

DATA = Path(__file__).parents[1] / "data"


def test_options_with_their_lines() -> None:
    reading = nvidia_params.read((DATA / "pastes" / "nvidia-params.txt").read_text("utf-8"))
    assert isinstance(reading, NvidiaParams)
    words = reading.text("RegistryDwords")
    assert words == Mention(line=10, text='RegistryDwords: "ForceP2P=0x11;RMForceP2PType=1"')
    assert isinstance(reading.text("NoSuchOption"), Unknown)


def test_a_real_module_without_options_of_its_own() -> None:
    text = (DATA / "guest-h200x2" / "drv-params.txt").read_text("utf-8")
    assert nvidia_params.recognize(text) > 0.9
    reading = nvidia_params.read(text)
    assert isinstance(reading, NvidiaParams)
    assert len(reading.options) == len(text.splitlines())


def test_other_texts() -> None:
    assert nvidia_params.recognize("Name: 1\nAddress: 2\n") == 0.0
    assert isinstance(nvidia_params.read("hello\n"), Unknown)
