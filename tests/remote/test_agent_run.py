"""Running: an argv, never a shell; its group ends with its time."""

import os
import time

from provision.remote import agent
from provision.remote.session import Want


def test_output_status_and_environment(local):
    done = local.run(["sh", "-c", 'echo "$LC_ALL $EXTRA"; echo bad >&2; exit 3'], env={"EXTRA": "x; id"})
    assert (done.rc, done.stdout, done.stderr, done.timed_out) == (3, b"C x; id\n", b"bad\n", False)


def test_no_shell_reads_the_words(local):
    assert local.run(["echo", "$(id)", ";", "*"]).stdout == b"$(id) ; *\n"


def test_stdin_is_closed_or_what_was_given(local):
    assert local.run(["cat"]).stdout == b""
    data = os.urandom(3_000_000)
    assert local.run(["cat"], stdin=data).stdout == data


def test_a_child_that_does_not_read_is_no_fault(local):
    assert local.run(["true"], stdin=b"x" * 1_000_000).rc == 0


def test_much_on_both_outputs(local):
    done = local.run(["sh", "-c", "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero"])
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 3_000_000)


def test_missing_and_forbidden_commands(local, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    assert local.run(["/nowhere/at-all"]).rc == 127
    assert local.run([str(plain)]).rc == 126


def test_death_by_signal_is_negative(local):
    assert local.run(["sh", "-c", "kill -9 $$"]).rc == -9


def test_the_whole_group_ends_with_the_time(local, tmp_path):
    mark = tmp_path / "mark"
    script = f"trap '' TERM; (trap '' TERM; sleep 2.5; touch {mark}) & echo started; wait"
    done = local.run(["sh", "-c", script], timeout=0.4)
    assert (done.timed_out, done.stdout) == (True, b"started\n")
    assert done.rc == -9
    time.sleep(2)
    assert not mark.exists()


def test_a_daemon_that_keeps_the_pipe_is_not_waited_for(local):
    done = local.run(["sh", "-c", "sleep 30 & echo $!"], timeout=25)
    assert (done.rc, done.timed_out) == (0, False)
    os.kill(int(done.stdout), 9)


def test_python_runs_a_program_with_arguments_and_input(local):
    source = b"import sys\nif __name__ == '__main__':\n    print(sys.argv[1:], sys.stdin.read())\n"
    assert local.python(source, ["a", "b c"]).stdout == b"['a', 'b c'] \n"
    assert local.python(source, stdin="ä\n".encode()).stdout == "[] ä\n\n".encode()


def test_python_on_the_lab_gets_the_source_as_input(rooted, table):
    table.answers[("python3", "-I", "-", "x")] = (0, b"{}", b"", False)
    assert rooted.python(b"print(1)", ["x"]).stdout == b"{}"
    assert table.calls[0][:2] == (("python3", "-I", "-", "x"), b"print(1)")


def test_read_of_a_command_that_hangs(local):
    (read,) = local.read([Want(kind="command", argv=("sh", "-c", "echo part; sleep 20"), timeout=0.3)])
    assert (read.item.state, read.data) == ("error", b"part\n")
    assert "did not end within" in read.item.reason


def test_output_is_bounded(monkeypatch):
    monkeypatch.setattr(agent, "OUTPUT_LIMIT", 1000)
    rc, out, _, _ = agent.run_child(("head", "-c", "5000", "/dev/zero"), b"", 5.0, {})
    assert (rc, len(out)) == (0, 1001)


def test_path_has_the_folders_of_the_administrator():
    path = agent.child_environment({})["PATH"].split(":")
    assert {"/usr/sbin", "/sbin"} <= set(path)
    assert len(path) == len(set(path))


# the same in this process, where a debugger and the coverage see it


def test_run_child_feeds_and_collects():
    assert agent.run_child(("cat",), b"x" * 200_000, 20.0, {}) == (0, b"x" * 200_000, b"", False)
    assert agent.run_child(("true",), b"x" * 1_000_000, 20.0, {})[0] == 0


def test_run_child_ends_a_group_that_ignores_the_polite_signal(monkeypatch):
    monkeypatch.setattr(agent, "TERM_SECONDS", 0.1)
    rc, out, _, timed_out = agent.run_child(
        ("sh", "-c", "trap '' TERM; echo a; while :; do sleep 0.05; done"), b"", 0.3, {}
    )
    assert (rc, out, timed_out) == (-9, b"a\n", True)


def test_run_child_that_closes_its_outputs_and_stays():
    rc, _, _, timed_out = agent.run_child(("sh", "-c", "exec >&- 2>&-; sleep 0.2"), b"", 20.0, {})
    assert (rc, timed_out) == (0, False)
    rc, _, _, timed_out = agent.run_child(("sh", "-c", "exec >&- 2>&-; exec sleep 20"), b"", 0.2, {})
    assert (rc, timed_out) == (-15, True)


def test_run_child_names_what_cannot_be_started(tmp_path):
    assert agent.run_child(("/none",), b"", 1.0, {}) == (127, b"", b"/none: command not found", False)
    assert agent.run_child((str(tmp_path),), b"", 1.0, {}) == (
        126,
        b"",
        f"{tmp_path}: Permission denied".encode(),
        False,
    )
