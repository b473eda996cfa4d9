from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.boot.grub import DEFAULT_FILE, SNIPPET_FILE, GrubDefaults, generated_cmdline
from provision.evidence import Unknown

PVE_DEFAULT = """\
# If you change this file, run 'update-grub' afterwards to update
# /boot/grub/grub.cfg.
GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${NAME} )`
GRUB_CMDLINE_LINUX_DEFAULT="quiet amd_iommu=on"   # IOMMU for the GPUs
GRUB_CMDLINE_LINUX=""
#GRUB_TERMINAL=console
"""


def line_of(files: dict[str, str]) -> str:
    cmdline = GrubDefaults(files).cmdline()
    assert not isinstance(cmdline, Unknown), cmdline
    return cmdline.render()


def removed(files: dict[str, str], token: str) -> dict[str, str]:
    defaults = GrubDefaults(files)
    places = defaults.find(token)
    assert not isinstance(places, Unknown)
    return dict(defaults.remove(places[0]).files)


def test_the_effective_line_of_a_stock_file() -> None:
    assert line_of({DEFAULT_FILE: PVE_DEFAULT}) == "quiet amd_iommu=on"


def test_one_token_goes_and_every_other_byte_stays() -> None:
    after = removed({DEFAULT_FILE: PVE_DEFAULT}, "amd_iommu=on")
    assert after[DEFAULT_FILE] == PVE_DEFAULT.replace(" amd_iommu=on", "")


def test_snippets_are_read_in_order_and_extend() -> None:
    files = {
        SNIPPET_FILE: 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"\n',
        "/etc/default/grub.d/zfs.cfg": 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX root=ZFS=rpool/ROOT/pve-1 boot=zfs"\n',
        "/etc/default/grub.d/ignored.conf": "GRUB_CMDLINE_LINUX_DEFAULT=never\n",
        DEFAULT_FILE: PVE_DEFAULT,
    }
    assert line_of(files) == "root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet amd_iommu=on iommu=pt"
    places = GrubDefaults(files).find("amd_iommu=on")
    assert not isinstance(places, Unknown)
    assert [(p.path, p.line, p.variable) for p in places] == [(DEFAULT_FILE, 6, "GRUB_CMDLINE_LINUX_DEFAULT")]


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ('X="amd_iommu=on quiet"', 'X="quiet"'),
        ('X="quiet  amd_iommu=on  splash"', 'X="quiet  splash"'),
        ("X='quiet amd_iommu=on'", "X='quiet'"),
        ("X=amd_iommu=on", "X="),
        ("X=quiet\\ amd_iommu=on", "X=quiet"),
        ("X=quiet' amd_iommu'=on", "X=quiet''"),
        ('export X="amd_iommu=on"', 'export X=""'),
        ('A=1 X="quiet amd_iommu=on" B=2', 'A=1 X="quiet" B=2'),
        ('X="quiet \\\n amd_iommu=on"', 'X="quiet\\\n"'),
        ('X="${X} amd_iommu=on"', 'X="${X}"'),
        ('X="$X amd_iommu=on"; Y=2', 'X="$X"; Y=2'),
    ],
)
def test_removal_in_every_kind_of_quoting(source: str, after: str) -> None:
    name = "GRUB_CMDLINE_LINUX_DEFAULT"
    long = lambda text: text.replace("X", name)  # noqa: E731
    assert removed({DEFAULT_FILE: long(source)}, "amd_iommu=on")[DEFAULT_FILE] == long(after)


@pytest.mark.parametrize(
    "source",
    [
        'if true; then\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nfi\n',
        '[ -f /x ] && GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n',
        'GRUB_CMDLINE_LINUX_DEFAULT="$(cat /x)"\n',
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet $HOSTNAME"\n',
        'GRUB_CMDLINE_LINUX_DEFAULT+=" quiet"\n',
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet\n',
        ". /etc/other\n",
    ],
)
def test_what_only_a_shell_knows_is_unknown(source: str) -> None:
    assert isinstance(GrubDefaults({DEFAULT_FILE: source}).cmdline(), Unknown)


def test_a_token_put_together_from_two_files_is_not_cut() -> None:
    files = {
        DEFAULT_FILE: "GRUB_CMDLINE_LINUX_DEFAULT=amd_",
        "/etc/default/grub.d/a.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT}iommu=on"',
    }
    places = GrubDefaults(files).find("amd_iommu=on")
    assert not isinstance(places, Unknown)
    with pytest.raises(ValueError, match="several files"):
        GrubDefaults(files).remove(places[0])


def test_replacement_keeps_the_rest() -> None:
    defaults = GrubDefaults({DEFAULT_FILE: PVE_DEFAULT})
    places = defaults.find("amd_iommu=on")
    assert not isinstance(places, Unknown)
    after = defaults.replace(places[0], "iommu=pt").files[DEFAULT_FILE]
    assert after == PVE_DEFAULT.replace("amd_iommu=on", "iommu=pt")


def test_the_generated_configuration_is_read() -> None:
    text = "menuentry 'x' {\n\tlinux\t/boot/vmlinuz-6.14 root=/dev/mapper/pve-root ro  quiet amd_iommu=on\n}\n"
    found = generated_cmdline(text)
    assert not isinstance(found, Unknown)
    assert [t.raw for t in found.tokens] == ["root=/dev/mapper/pve-root", "ro", "quiet", "amd_iommu=on"]
    assert isinstance(generated_cmdline("set timeout=5\n"), Unknown)


WORD = st.text(alphabet="ab=.'\"$\\ \t-_{}#;\n", max_size=25)


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="no shell to compare with")
@settings(max_examples=150, deadline=None)
@given(WORD)
def test_a_shell_reads_the_same_value_wherever_we_claim_to_know_it(
    tmp_path_factory: pytest.TempPathFactory, word: str
) -> None:
    text = f"GRUB_CMDLINE_LINUX_DEFAULT=quiet\nGRUB_CMDLINE_LINUX_DEFAULT={word}\n"
    cmdline = GrubDefaults({DEFAULT_FILE: text}).cmdline()
    if isinstance(cmdline, Unknown):
        return
    file = tmp_path_factory.mktemp("grub") / "grub"
    file.write_text(text)
    seen = _shell(file)
    if seen is not None:
        assert seen == cmdline.render().split()


def _shell(file: Path) -> list[str] | None:
    """The words a shell sees; ``None`` where it refuses the file."""
    script = '. "$1"; printf %s "$GRUB_CMDLINE_LINUX_DEFAULT"'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(file)],
        capture_output=True,
        check=False,
        text=True,
        env={"PATH": "/nonexistent"},
    )
    return done.stdout.split() if not done.returncode and not done.stderr else None
