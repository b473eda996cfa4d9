"""The lab's own reading of GRUB's defaults, checked against a real shell where there is one."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from provision.lab import grub

FILES = {
    "plain": "A=1\nB='two words'\n# C=3\nD=\"x $A ${B}\"\n",
    "escapes": 'A="a \\"quoted\\" \\$B \\\\ \\x"\nB=\\ c\n',
    "joined": "A=a'b'\"c\"d # comment\nexport B=$A\n",
    "lines": 'A="one\\\ntwo"\nB="three\nfour"\n',
    "unset": 'A="$NOT_THERE x"\nB=$A$A\n',
    "several": "A=1; B=2\n\n  C=3",
    "plain words": "true\nA=plain # not this\n#B=no\n",
    "again": 'A="a"\nA="$A b"\nB=\n',
}


@pytest.fixture
def values(tmp_path):
    def read(*texts):
        folder = tmp_path / "etc/default/grub.d"
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / "etc/default/grub").write_text(texts[0])
        for number, text in enumerate(texts[1:]):
            (folder / f"{number}.cfg").write_text(text)
        return grub.defaults(tmp_path)

    return read


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell")
@pytest.mark.parametrize("name", FILES)
def test_agrees_with_a_shell(values, name, tmp_path):
    found = values(FILES[name])
    show = "".join(f'printf "%s\\0" "${key}"\n' for key in found)
    said = subprocess.run(
        ["sh"], input=FILES[name] + "\n" + show, capture_output=True, text=True, check=True, timeout=20
    )
    assert list(found.values()) == said.stdout.split("\0")[:-1]


def test_snippets_append(values):
    assert values('X="quiet"\n', 'X="$X a"\n', 'X="$X b"\n')["X"] == "quiet a b"


def test_open_quote_is_named(values):
    with pytest.raises(grub.GrubSyntaxError, match=r"^/etc/default/grub.d/0.cfg: 2: .*Unterminated"):
        values("A=1\n", '\nA="open\n')


def test_command_output_is_not_run(values):
    assert values("A=`echo no`x\n")["A"] == "x"


def test_entries(build):
    built = build("epyc-8x-rtxpro6000")
    text = built.text(grub.GRUB_CFG)
    assert text.count("\tlinux\t") == 5
    assert text.count("(recovery mode)") == 2
    built.write("etc/default/grub.d/z.cfg", "GRUB_DISABLE_RECOVERY=true\nGRUB_TIMEOUT=9\n")
    built.update_grub()
    text = built.text(grub.GRUB_CFG)
    assert "set timeout=9" in text
    assert "recovery" not in text


def test_newest_kernel_first(tmp_path):
    (tmp_path / "boot").mkdir()
    for release in ("6.8.12-9-pve", "6.14.11-4-pve", "6.8.12-15-pve"):
        (tmp_path / f"boot/vmlinuz-{release}").touch()
    assert grub.kernels(tmp_path) == ["6.14.11-4-pve", "6.8.12-15-pve", "6.8.12-9-pve"]


def test_nothing_to_boot():
    assert grub.booted_cmdline("set timeout=5\n") is None


def test_no_kernel_gives_no_entry(tmp_path):
    assert "menuentry" not in grub.generate(tmp_path, "/dev/sda1")
