"""The frame of the command line: help, usage errors, errors as text and JSON, colors."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from provision import __version__, errors
from provision.cli import app, output
from provision.cli.verbs import EXIT_CODES, VERBS


def test_help_names_every_verb_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(verb.name in text and verb.summary in text for verb in VERBS)
    assert all(f"{code}  " in text for code, _ in EXIT_CODES)
    assert max(len(line) for line in text.splitlines()) <= 80


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from provision.cli.app import run; run(['--help']); "
        "print([m for m in ('typer','pydantic','paramiko','jinja2','yaml','rich','pytest') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out == f"pvectl {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], []),
        (["plna"], ["no verb", "plan"]),
        (["doctor", "--frob"], ["--frob", "--help"]),
        (["topo", "a", "b"], ["--help"]),
    ],
)
def test_usage_errors_end_with_64(argv: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(argv) == 64
    err = capsys.readouterr().err
    assert all(word in err for word in words), err


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_each_verb_has_help_with_examples_and_exit_codes(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    if verb != "lab":
        assert "Exit codes" in text
        assert text.count(f"pvectl {verb}") >= 3, "usage and two examples"


def tree(kind: type[errors.PvectlError]) -> list[type[errors.PvectlError]]:
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in tree(child))]


@pytest.mark.parametrize("kind", [k for k in tree(errors.PvectlError) if k.__module__ == "provision.errors"])
def test_error_tree_is_documented_and_its_codes_too(kind: type[errors.PvectlError]) -> None:
    assert errors.__doc__ is not None
    row = next(line for line in errors.__doc__.splitlines() if f" {kind.__name__} " in f"{line} ".replace("─", " "))
    assert str(kind.exit_code) in row
    assert kind.exit_code in {code for code, _ in EXIT_CODES}


def test_error_is_text_with_hint_and_json_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    error = errors.StalePlan("Unable to apply to pve1: it moved", "plan again", moved=("/etc/default/grub",))
    assert app._report(error, ["apply", "--output", "json"]) == 4
    streams = capsys.readouterr()
    assert streams.err == "error: Unable to apply to pve1: it moved\n  moved: /etc/default/grub\nhint: plan again\n"
    data = json.loads(streams.out)
    assert data["schema"] == "pvectl.error/1"
    assert data["data"]["exit_code"] == 4
    assert data["data"]["moved"] == ["/etc/default/grub"]


@pytest.mark.parametrize(
    ("codes", "winner"),
    [([], 0), ([0, 2], 2), ([2, 3, 6], 6), ([7, 1], 1), ([4, 5], 5), ([5, 64], 64), ([64, 130], 130)],
)
def test_the_worst_code_wins(codes: list[int], winner: int) -> None:
    assert errors.worst(codes) == winner


class Terminal:
    def __init__(self, *, tty: bool) -> None:
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


@pytest.mark.parametrize(
    ("tty", "env", "color"),
    [
        (True, {"TERM": "xterm"}, True),
        (False, {"TERM": "xterm"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_color(tty: bool, env: dict[str, str], color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    stream: Any = Terminal(tty=tty)
    assert output.wants_color(stream) is color


def test_consent_off_a_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(tty=False))
    with pytest.raises(errors.ConsentNeeded, match="not answered"):
        output.confirm("Apply 3 changes?", yes=False)
    assert output.confirm("Apply 3 changes?", yes=True)


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m provision.cli --help | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("Usage: pvectl")


def test_an_option_in_front_of_its_verb_is_put_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["-i", "my file.yaml", "plan", "pve1"]) == 64
    assert "hint: options stand behind the verb: pvectl plan -i 'my file.yaml' pve1\n" in capsys.readouterr().err


COMMANDS = [(verb.name,) for verb in VERBS if verb.name not in ("lab", "mapping")]
COMMANDS += [("lab", name) for name in ("up", "down", "status", "break", "run")]
COMMANDS += [("mapping", name) for name in ("list", "check", "repair", "adopt", "split")]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_examples_stand_one_on_a_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([*words, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    examples = lines[lines.index("  Examples:") + 1 :]
    shown = examples[: examples.index("")]
    assert shown
    assert all(line.startswith("    ") and "pvectl" in line for line in shown)


def test_ctrl_c_is_answered_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("provision.cli.doctor.resolve", interrupt)
    assert app.run(["doctor", "root@pve1"]) == 130
    assert capsys.readouterr().err.endswith("interrupted\n")
