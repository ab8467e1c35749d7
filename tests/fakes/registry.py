"""A registry of images for a test, with one image in it; engines fetch it from 127.0.0.1 without further ado."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@contextmanager
def registry(layer: bytes, architecture: str = "amd64", login: str = "") -> Iterator[tuple[str, list[str]]]:
    """Where the registry is, and what it was asked for; each name in it is the image that has this one layer (a tar).

    `login`: `user:password`, without which it gives nothing.
    """
    packed = gzip.compress(layer, mtime=0)
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    parts = [
        {"mediaType": f"application/vnd.docker.{kind}", "size": len(data), "digest": _digest(data)}
        for kind, data in (("container.image.v1+json", config), ("image.rootfs.diff.tar.gzip", packed))
    ]
    manifest = json.dumps(
        {"schemaVersion": 2, "mediaType": MANIFEST, "config": parts[0], "layers": [parts[1]]}
    ).encode()
    blobs = {_digest(data): data for data in (config, packed)}
    asked: list[str] = []
    wanted = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            if wanted and self.headers.get("Authorization") != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="images"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            kind, _, name = self.path.rpartition("/")
            body = b"{}" if self.path == "/v2/" else manifest if kind.endswith("/manifests") else blobs.get(name)
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Type", MANIFEST if body is manifest else "application/octet-stream")
            self.send_header("Docker-Content-Digest", _digest(body or b""))
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body or b"")

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"localhost:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
