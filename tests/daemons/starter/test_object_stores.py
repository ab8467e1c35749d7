"""s3:// and ftp://: against servers of the test's own, of which the one checks signatures."""

from __future__ import annotations

import datetime
import ipaddress
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pool.classad import ClassAd
from pool.files.s3 import Endpoint, signature_of
from pool.jobs.vocabulary.endings import Ending

from .bench import Bench, bench

YES = {"ShouldTransferFiles": "YES"}
BUILT_IN = ["/nowhere/curl_plugin"]
ACCESS, SECRET = "AKEY", "very/secret"


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "cert.pem", directory / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    paths[0].chmod(0o644)
    return paths


class Store(ThreadingHTTPServer):
    """An object store: who signs with SECRET reads and writes."""

    daemon_threads = True

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), _StoreHandler)
        self.cert, key = certificate(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.objects: dict[str, bytes] = {}
        self.url = f"s3://127.0.0.1:{self.server_address[1]}"


class _StoreHandler(BaseHTTPRequestHandler):
    server: Store

    def _is_signed(self) -> bool:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        signature = query.get("X-Amz-Signature", "")
        access, _, scope = query.get("X-Amz-Credential", "").partition("/")
        canonical = parts.query.rpartition("&X-Amz-Signature=")[0]
        place = Endpoint(self.headers["Host"], parts.path, "")
        right = signature_of(self.command, place, canonical, SECRET, query.get("X-Amz-Date", ""), scope)
        if access == ACCESS and signature == right and scope.split("/")[1] == "here":
            return True
        self.send_error(403)
        return False

    def do_GET(self) -> None:
        if not self._is_signed():
            return
        data = self.server.objects.get(urlsplit(self.path).path)
        if data is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self._is_signed():
            self.server.objects[urlsplit(self.path).path] = data
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class FtpServer(socketserver.ThreadingTCPServer):
    """As much of an FTP server as a transfer needs."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _FtpHandler)
        self.files: dict[str, bytes] = {}
        self.url = f"ftp://ann:pass@127.0.0.1:{self.server_address[1]}"


class _FtpHandler(socketserver.StreamRequestHandler):
    server: FtpServer

    def handle(self) -> None:
        self._say("220 ready")
        data: socketserver.socket.socket | None = None  # type: ignore[name-defined]
        user = ""
        while line := self.rfile.readline().decode().strip():
            command, _, argument = line.partition(" ")
            match command.upper():
                case "USER":
                    user = argument
                    self._say("331 and the password?")
                case "PASS":
                    good = (user, argument) == ("ann", "pass")
                    self._say("230 welcome" if good else "530 not you")
                case "FEAT":
                    self._say("211-can\r\n SIZE\r\n211 end")
                case "SIZE":
                    known = self.server.files.get(argument)
                    self._say("550 no such file" if known is None else f"213 {len(known)}")
                case "EPSV":
                    self._say("500 what?")
                case "PASV":
                    data = socketserver.socket.create_server(("127.0.0.1", 0))  # type: ignore[attr-defined]
                    port = data.getsockname()[1]
                    self._say(f"227 (127,0,0,1,{port >> 8},{port & 255})")
                case "RETR" if argument in self.server.files and data is not None:
                    self._say("150 here")
                    with data, data.accept()[0] as stream:
                        stream.sendall(self.server.files[argument])
                    self._say("226 done")
                case "STOR" if data is not None:
                    self._say("150 go")
                    with data, data.accept()[0] as stream, stream.makefile("rb") as file:
                        self.server.files[argument] = file.read()
                    self._say("226 done")
                case "RETR":
                    self._say("550 no such file")
                case "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("200 fine")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """Serve while the block runs."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def keys(b: Bench, secret: str = SECRET) -> dict[str, Any]:
    (b.iwd / "access").write_text(f"{ACCESS}\n")
    (b.iwd / "secret").write_text(f"{secret}\n")
    return {"EC2AccessKeyId": "access", "EC2SecretAccessKey": str(b.iwd / "secret"), "AWSRegion": "here"}


async def test_s3_files_come_and_go_and_the_keys_stay(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with serving(Store(tmp_path)) as store:
        store.objects["/box/seed"] = b"seed\n"
        async with bench(agent=True, url_plugins=BUILT_IN) as b:
            (b.iwd / "cert.pem").write_bytes(store.cert.read_bytes())
            job = b.job_ad(
                "cat seed; ls; env; echo grown > grown; echo more > more",
                TransferInput=f"{store.url}/box/seed",
                TransferOutput="grown, more",
                TransferOutputRemaps=f"grown={store.url}/box/out/grown",
                OutputDestination=f"{store.url}/whole/",
                **keys(b),
                **YES,
            )
            job["Environment"] = f"PATH=/bin:/usr/bin SSL_CERT_FILE={b.iwd}/cert.pem"
            end = await b.ended(await b.run(job, files=True))
            assert end.ending is Ending.EXITED, end.ad
            said = (b.iwd / "out").read_text()
            assert said.startswith("seed\n")
            assert SECRET not in said
        assert store.objects["/box/out/grown"] == b"grown\n"
        assert store.objects["/whole/more"] == b"more\n"
        (result,) = end.ad["InputPluginResultList"]  # type: ignore[misc]
        assert isinstance(result, ClassAd)
        assert result["TransferUrl"] == f"{store.url}/box/seed"
        assert "X-Amz" not in end.ad.long()


@pytest.mark.parametrize(
    ("secret", "said"),
    [("wrong", "The requested URL returned error: 403"), (None, "secret key file")],
)
async def test_a_job_whose_keys_do_not_open_the_store_is_held(tmp_path: Path, secret: str | None, said: str) -> None:
    tmp_path.chmod(0o755)
    with serving(Store(tmp_path)) as store:
        async with bench(agent=True, url_plugins=BUILT_IN) as b:
            (b.iwd / "cert.pem").write_bytes(store.cert.read_bytes())
            job = b.job_ad("true", TransferInput=f"{store.url}/box/seed", **keys(b, secret or ""), **YES)
            job["Environment"] = f"PATH=/bin:/usr/bin SSL_CERT_FILE={b.iwd}/cert.pem"
            if secret is None:
                (b.iwd / "secret").unlink()
            end = await b.ended(await b.run(job, files=True))
            assert end.ending is Ending.HOLD
            assert said in end.reason
            assert f"{store.url}/box/seed" in end.reason or secret is None
            assert "X-Amz" not in end.reason
            assert end.ad["HoldReasonCode"] == 13


async def test_ftp_files_come_and_go() -> None:
    with serving(FtpServer()) as server:
        server.files = {"in/seed": b"seed\n" * 100_000}
        async with bench(agent=True, url_plugins=BUILT_IN) as b:
            job = b.job_ad(
                "cp seed grown",
                TransferInput=f"{server.url}/in/seed",
                TransferOutput="grown",
                TransferOutputRemaps=f"grown={server.url}/out/grown",
                **YES,
            )
            end = await b.ended(await b.run(job, files=True))
            assert end.ending is Ending.EXITED, end.ad
        assert server.files["out/grown"] == server.files["in/seed"]


async def test_an_ftp_file_that_is_not_there_holds_the_job() -> None:
    with serving(FtpServer()) as server:
        async with bench(agent=True, url_plugins=BUILT_IN) as b:
            job = b.job_ad("true", TransferInput=f"{server.url}/in/nothing", **YES)
            end = await b.ended(await b.run(job, files=True))
            assert end.ending is Ending.HOLD
            assert "550 no such file" in end.reason
