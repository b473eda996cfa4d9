"""known_hosts as sshd(8) describes it."""

import base64
import hmac
import subprocess

import pytest

from provision.remote import hostkeys

GOOD, OTHER = b"good key", b"other key"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def line(names: str, key: bytes = GOOD, kind: str = "ssh-ed25519", mark: str = "") -> str:
    return f"{mark} {names} {kind} {b64(key)} comment".strip()


def hashed(name: str) -> str:
    salt = b"salt of twenty bytes"
    return f"|1|{b64(salt)}|{b64(hmac.new(salt, name.encode(), 'sha1').digest())}"


def judge(
    text: str, host: str = "pve1", port: int = 22, alias: str | None = None, key: bytes = GOOD
) -> hostkeys.Verdict:
    return hostkeys.judge(hostkeys.parse(text, "kh"), hostkeys.host_names(host, port, alias), key)


@pytest.mark.parametrize(
    ("text", "options", "kind"),
    [
        (line("pve1"), {}, "known"),
        (line("PVE1"), {"host": "pve1"}, "known"),
        (line("pve1"), {"host": "PVE1"}, "known"),
        (line("a,pve1,b"), {}, "known"),
        (line("*.example.com"), {"host": "a.example.com"}, "known"),
        (line("pve?"), {}, "known"),
        (line("!pve1,pve*"), {}, "unknown"),
        (line(hashed("pve1")), {}, "known"),
        (line(hashed("pve2")), {}, "unknown"),
        (line(hashed("[pve1]:2222")), {"port": 2222}, "known"),
        (line("[pve1]:2222"), {"port": 2222}, "known"),
        (line("[pve1]:2222"), {}, "unknown"),
        (line("[p]:2222"), {"host": "p", "port": 2222}, "known"),
        (line("pve1"), {"port": 2222}, "known"),
        (line("pve1", OTHER), {"port": 2222}, "unknown"),
        (line("[pve1]:2222", OTHER), {"port": 2222}, "changed"),
        (line("cluster"), {"alias": "cluster", "port": 2222}, "known"),
        (line("pve1"), {"alias": "cluster"}, "unknown"),
        (line("pve1", OTHER), {}, "changed"),
        (line("pve1", OTHER) + "\n" + line("pve1"), {}, "known"),
        (line("pve1") + "\n" + line("*", mark="@revoked"), {}, "revoked"),
        (line("pve1") + "\n" + line("*", OTHER, mark="@revoked"), {}, "known"),
        (line("*", mark="@cert-authority"), {}, "unknown"),
        (line("pve1", mark="@future"), {}, "unknown"),
        ("", {}, "unknown"),
        (
            "# comment\n\npve1\npve1 ssh-ed25519\npve1 ssh-ed25519 not*base64\n|1|x|y ssh-ed25519 " + b64(GOOD),
            {},
            "unknown",
        ),
    ],
)
def test_verdict(text, options, kind):
    assert judge(text, **options).kind == kind


def test_a_changed_key_names_what_was_known():
    verdict = judge("\n" + line("pve1", OTHER))
    assert verdict.known == (f"ssh-ed25519 {hostkeys.fingerprint(OTHER)} (kh:2)",)


def test_certificate_authorities_are_named_as_passed_over():
    assert judge(line("*", mark="@cert-authority")).skipped == ("kh:1",)


def test_types_that_are_known_come_first():
    keys = hostkeys.parse("\n".join([line("pve1", kind="ssh-rsa"), line("x"), line("pve1", kind="ssh-ed25519")]), "kh")
    assert hostkeys.key_types(keys, ("pve1",)) == ("ssh-rsa", "ssh-ed25519")


def test_files_are_parsed_once_and_again_when_they_change(tmp_path, monkeypatch):
    path = tmp_path / "known_hosts"
    path.write_text(line("pve1") + "\n")
    calls = []
    real = hostkeys.parse
    monkeypatch.setattr(hostkeys, "parse", lambda text, source: (calls.append(source), real(text, source))[1])
    for _ in range(3):
        assert len(hostkeys.load([path, tmp_path / "none"])) == 1
    path.write_text(line("pve1") + "\n" + line("pve2") + "\n")
    assert len(hostkeys.load([path])) == 2
    assert len(calls) == 2


def test_agrees_with_ssh_keygen(tmp_path):
    key = tmp_path / "key"
    if subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=False).returncode:
        pytest.skip("no ssh-keygen")
    kind, text = (tmp_path / "key.pub").read_text().split()[:2]
    shown = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True).stdout
    assert hostkeys.fingerprint(base64.b64decode(text)) == shown.split()[1]
    known = tmp_path / "known_hosts"
    known.write_text(f"[pve1]:2222 {kind} {text}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    assert "pve1" not in known.read_text()
    verdict = hostkeys.judge(hostkeys.load([known]), hostkeys.host_names("pve1", 2222), base64.b64decode(text))
    assert verdict.kind == "known"
