"""A small HTTPS server that answers what a test tells it, and keeps what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from provision.pve.tasks import Clock


@dataclass
class Reply:
    status: int = 200
    body: Any = None
    """JSON value, bytes as they are, or ``None`` for ``{"data": null}``; ``...`` for an empty body."""
    reason: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    hang_up: bool = False
    """Close the connection instead of an answer."""
    wait: threading.Event | None = None
    """Answer only when this is set."""


@dataclass
class Asked:
    method: str
    path: str
    params: dict[str, list[str]]
    raw: str
    headers: dict[str, str]


Answer = Callable[[Asked], Reply]


class FakeApi:
    """Answers by ``answer``; ``asked`` keeps every request in order."""

    def __init__(self, certificate: Path, key: Path, pem: str) -> None:
        self.pem = pem
        self.certificate = certificate
        self.asked: list[Asked] = []
        self.answer: Answer = lambda _: Reply()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def routes(self, table: dict[str, Any]) -> None:
        """Answer by ``"GET /version"``: a Reply, a list of them for one after another, or the data."""

        def answer(asked: Asked) -> Reply:
            found = table[f"{asked.method} {asked.path}"]
            if isinstance(found, list) and found and all(isinstance(one, Reply) for one in found):
                found = found.pop(0) if len(found) > 1 else found[0]
            return found if isinstance(found, Reply) else Reply(body={"data": found})

        self.answer = answer

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off the handshake is what some tests are about."""


def _handler(api: FakeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65536  # head and body in one packet

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            asked = Asked(
                method=self.command,
                path=parts.path.removeprefix("/api2/json"),
                params=parse_qs(raw or parts.query, keep_blank_values=True),
                raw=raw or parts.query,
                headers={name.lower(): value for name, value in self.headers.items()},
            )
            api.asked.append(asked)
            reply = api.answer(asked)
            if reply.wait is not None:
                reply.wait.wait(10)
            if reply.hang_up or reply.wait is not None:
                self.close_connection = True
                return
            self._send(reply)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

        def _send(self, reply: Reply) -> None:
            body = b"" if reply.body is ... else reply.body
            data = body if isinstance(body, bytes) else json.dumps(body or {"data": None}).encode()
            self.send_response(reply.status, reply.reason)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


def make_certificate(folder: Path, name: str) -> tuple[Path, Path, str]:
    """Write a self-signed certificate for ``name`` and 127.0.0.1; return its path, its key's, and its text."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    certificate_path, key_path = folder / f"{name}.pem", folder / f"{name}.key"
    certificate_path.write_text(pem)
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_path, key_path, pem


@pytest.fixture(scope="module")
def running_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeApi]:
    api = FakeApi(*make_certificate(tmp_path_factory.mktemp("tls"), "pve1"))
    yield api
    api.close()


@pytest.fixture
def api(running_api: FakeApi) -> FakeApi:
    running_api.asked.clear()
    running_api.answer = lambda _: Reply()
    return running_api


@pytest.fixture
def clock() -> Clock:
    """Time that passes only by sleeping."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    return Clock(now=lambda: now[0], sleep=sleep)
