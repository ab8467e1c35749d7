"""The file transfer plug-in that comes with the pool: http, https, dav, davs, ftp and file, by HTCondor's protocol.

    python -m daemons.libexec.url_plugin -classad
    python -m daemons.libexec.url_plugin -infile REQUESTS -outfile ANSWERS [-upload]

A program of its own, run as the job's account: what a server sends never enters a process of the pool. A download whose
connection breaks goes on where it stopped; what is longer or shorter than the server said counts as broken. It imports
nothing that a fetch does not need.

Source: HTCondor's manual, "File Transfer Plug-Ins" (protocol version 4) and "Transfer Error Data"; the plug-in that
comes with it is src/condor_filetransfer_plugins/multifile_curl_plugin.cpp.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from pool.base.ids import is_number
from pool.base.url import scheme_of
from pool.base.version import VERSION
from pool.classad import ClassAd
from pool.classad.forms.lists import read_text
from pool.files.plugins import ANSWER_BYTES, BUILT_IN_METHODS

if TYPE_CHECKING:
    from ftplib import FTP

TRIES_MAX: Final = 4
FIRST_PAUSE_S: Final = 0.5
SILENCE_S: Final = 60.0
CHUNK: Final = 256 * 1024
RETRIED: Final = frozenset((408, 429, 500, 502, 503, 504))
_WIRE: Final = {"dav": "http", "davs": "https"}


class TransferFailed(Exception):
    """A file that did not move, and in which way (HTCondor's TransferErrorData)."""

    def __init__(self, said: str, kind: str, *, again: bool = False, **facts: Any) -> None:
        super().__init__(said)
        self.kind, self.again, self.facts = kind, again, facts


class PluginTransfer:
    """One file: what was asked, and what becomes of it."""

    def __init__(self, url: str, path: str, upload: bool) -> None:
        self.url, self.path, self.upload = url, path, upload
        self.size = self.tries = self.status = 0
        self.began = time.time()

    # ---- the whole

    def run(self) -> ClassAd:
        """Move it; the ad that tells of it."""
        failed: TransferFailed | None = None
        for number in range(TRIES_MAX):
            self.tries = number + 1
            try:
                self._move()
                failed = None
                break
            except TransferFailed as error:
                failed = error
            except (
                http.client.HTTPException,
                ValueError,
            ) as error:  # a broken answer, a wrong port
                failed = TransferFailed(
                    f"{type(error).__name__}: {error}", "Transfer", again=not isinstance(error, ValueError)
                )
            except OSError as error:
                failed = _failed(error, urlsplit(self.url).hostname or "")
            if not failed.again:
                break
            if number < TRIES_MAX - 1:
                time.sleep(FIRST_PAUSE_S * 2**number)
        return self._answer(failed)

    def _answer(self, failed: TransferFailed | None) -> ClassAd:
        now = time.time()
        parts = urlsplit(self.url)
        ad: dict[str, object] = {
            "TransferUrl": self.url,
            "TransferFileName": self.path,
            "TransferProtocol": scheme_of(self.url).lower(),
            "TransferType": "upload" if self.upload else "download",
            "TransferSuccess": failed is None,
            "TransferFileBytes": self.size,
            "TransferTotalBytes": self.size,
            "TransferStartTime": int(self.began),
            "TransferEndTime": int(now),
            "ConnectionTimeSeconds": now - self.began,
            "DeveloperData": {
                "TransferTries": self.tries,
                "TransferHTTPStatusCode": self.status,
                "TransferHostName": parts.hostname or "localhost",
                "TransferLocalMachineName": socket.gethostname(),
            },
        }
        if failed is not None:
            ad["TransferError"] = str(failed)
            error = {"ErrorType": failed.kind, "ErrorCode": self.status or 1, "ErrorString": str(failed)}
            ad["TransferErrorData"] = [{**error, "Retryable": 0 if failed.again else -1, **failed.facts}]
        return ClassAd(ad)

    # ---- by scheme

    def _move(self) -> None:
        if scheme_of(self.url).lower() == "file":
            self._copy()
        elif scheme_of(self.url).lower() == "ftp":
            self._ftp()
        elif self.upload:
            self._put()
        else:
            self._get()

    def _copy(self) -> None:
        parts = urlsplit(self.url)
        if parts.hostname not in (None, "localhost", socket.gethostname()):
            raise TransferFailed(f"a file URL names another host: {parts.hostname}", "Parameter", **_PLUGIN)
        there = unquote(parts.path)
        source, target = (self.path, there) if self.upload else (there, self.path)
        if self.upload:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as read, open(target, "wb") as write:
            shutil.copyfileobj(read, write, CHUNK)
            self.size = write.tell()
        # An executable that is fetched is to be executed.
        shutil.copymode(source, target)

    def _get(self) -> None:
        request = self._request()
        have = 0
        if self.tries > 1 and os.path.exists(self.path):
            have = os.path.getsize(self.path)
        if have:
            request.add_header("Range", f"bytes={have}-")
        with self._opened(request) as answer:
            goes_on = answer.status == 206
            # A server that does not know ranges sends all of it again.
            have = have if goes_on else 0
            length = answer.headers.get("Content-Length")
            expected = have + int(length) if length and is_number(length) else None
            with open(self.path, "ab" if goes_on else "wb") as file:
                while True:
                    try:
                        piece = answer.read(CHUNK)
                    except http.client.IncompleteRead as error:
                        piece = error.partial
                        file.write(piece)
                        # What has come stays, and the next try asks for the rest.
                        raise self._broken(file.tell(), expected) from None
                    if not piece:
                        break
                    file.write(piece)
                self.size = file.tell()
        if expected is not None and self.size != expected:
            raise self._broken(self.size, expected)

    def _ftp(self) -> None:
        """By passive connections; as anonymous, unless the URL names somebody."""
        import ftplib

        parts = urlsplit(self.url)
        host, path = parts.hostname or "", unquote(parts.path).removeprefix("/")
        try:
            with ftplib.FTP(timeout=SILENCE_S) as server:
                server.connect(host, parts.port or ftplib.FTP_PORT)
                server.login(unquote(parts.username or "anonymous"), unquote(parts.password or "anonymous@"))
                if self.upload:
                    with open(self.path, "rb") as source:
                        server.storbinary(f"STOR {path}", source, CHUNK)
                        self.size = source.tell()
                else:
                    self._retrieve(server, path)
        except ftplib.error_temp as error:
            raise TransferFailed(f"{host} says: {error}", "Transfer", again=True, FailedServer=host) from None
        except ftplib.error_perm as error:
            kind = "Authorization" if str(error)[:3] == "530" else "Specification"
            raise TransferFailed(f"{host} says: {error}", kind, FailedServer=host) from None
        except (ftplib.Error, EOFError) as error:
            raise TransferFailed(f"{host} broke off: {error}", "Contact", again=True, FailedServer=host) from None

    def _retrieve(self, server: FTP, path: str) -> None:
        have = os.path.getsize(self.path) if self.tries > 1 and os.path.exists(self.path) else 0
        server.voidcmd("TYPE I")
        expected = server.size(path) if "SIZE" in _features(server) else None
        with open(self.path, "ab" if have else "wb") as file:
            server.retrbinary(f"RETR {path}", file.write, CHUNK, rest=have or None)
            self.size = file.tell()
        if expected is not None and self.size != expected:
            raise self._broken(self.size, expected)

    def _broken(self, size: int, expected: int | None) -> TransferFailed:
        said = f"the connection ended after {size} of {expected} bytes"
        return TransferFailed(
            said, "Transfer", again=True, FailedServer=urlsplit(self.url).hostname or "", FailureType="TimedOut"
        )

    def _put(self) -> None:
        size = os.path.getsize(self.path)
        with open(self.path, "rb") as file:
            request = self._request(data=file, method="PUT")
            request.add_header("Content-Length", str(size))
            request.add_header("Content-Type", "application/octet-stream")
            with self._opened(request) as answer:
                answer.read(CHUNK)
        self.size = size

    # ---- http

    def _request(self, data: IO[bytes] | None = None, method: str = "GET") -> urllib.request.Request:
        scheme, _, rest = self.url.partition("://")
        token, _, plain = scheme.rpartition("+")
        plain = plain.lower()
        request = urllib.request.Request(f"{_WIRE.get(plain, plain)}://{rest}", data=data, method=method)
        request.add_header("User-Agent", f"minipool/{VERSION}")
        if token:
            request.add_header("Authorization", f"Bearer {_credential(token)}")
        return request

    def _opened(self, request: urllib.request.Request) -> Any:
        host = request.host or ""
        try:
            answer = urllib.request.urlopen(request, timeout=SILENCE_S)
        except urllib.error.HTTPError as error:
            self.status = error.code
            error.close()
            raise _refused(error, host) from None
        except urllib.error.URLError as error:
            reason = error.reason if isinstance(error.reason, OSError) else OSError(str(error.reason))
            raise _failed(reason, host) from None
        except (http.client.HTTPException, ValueError) as error:
            raise TransferFailed(f"{type(error).__name__}: {error}", "Contact", again=True, FailedServer=host) from None
        self.status = answer.status
        return answer


def _features(server: FTP) -> str:
    """What it says that it can do; a server that does not know the question can do nothing special."""
    import ftplib

    try:
        return server.sendcmd("FEAT").upper()
    except ftplib.error_perm:
        return ""


_PLUGIN: Final[dict[str, Any]] = {"PluginVersion": VERSION, "PluginLaunched": True}


def _refused(error: urllib.error.HTTPError, host: str) -> TransferFailed:
    said = f"The requested URL returned error: {error.code} {error.reason}".rstrip()
    if error.code in (401, 403, 407):
        how = "Authentication" if error.code != 403 else "Authorization"
        return TransferFailed(said, "Authorization", FailedServer=host, FailureType=how, ShouldRefresh=False)
    if error.code in (404, 405, 409, 410):
        return TransferFailed(said, "Specification", FailedServer=host)
    return TransferFailed(said, "Transfer", again=error.code in RETRIED, FailedServer=host, FailureType="TooSlow")


def _failed(error: OSError, host: str) -> TransferFailed:
    said = error.strerror or str(error)
    if isinstance(error, socket.gaierror):
        return TransferFailed(
            f"Could not resolve host: {host} ({said})", "Resolution", FailedName=host, FailureType="Definitive"
        )
    if isinstance(error, TimeoutError):
        said = f"{host} was silent for {SILENCE_S:.0f} s"
        return TransferFailed(said, "Transfer", again=True, FailedServer=host, FailureType="TimedOut")
    if isinstance(error, ConnectionError):
        return TransferFailed(f"Could not connect to {host}: {said}", "Contact", again=True, FailedServer=host)
    if error.filename is not None:
        return TransferFailed(f"{error.filename}: {said}", "Transfer", FailedServer="localhost", FailureType="NoSpace")
    return TransferFailed(said, "Transfer", FailedServer=host, FailureType="TooSlow")


def _credential(name: str) -> str:
    """The token for `name+https://...`: $_CONDOR_CREDS/name.use, a dot in the URL standing for an underscore."""
    directory = os.environ.get("_CONDOR_CREDS", "")
    path = os.path.join(directory, name.replace(".", "_") + ".use")
    if not directory or "/" in name:
        raise TransferFailed(f"this job has no credential {name!r}", "Parameter", **_PLUGIN)
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def describe() -> str:
    """What -classad prints."""
    return ClassAd(
        {
            "MultipleFileSupport": True,
            "PluginVersion": VERSION,
            "PluginType": "FileTransfer",
            "ProtocolVersion": 4,
            "SupportedMethods": ",".join(BUILT_IN_METHODS),
        }
    ).long()


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the plug-in."""
    if "-classad" in argv:
        sys.stdout.write(describe())
        return 0
    words = list(argv)
    if "-infile" not in words[:-1] or "-outfile" not in words[:-1]:
        sys.stderr.write("Usage: url_plugin -classad | -infile FILE -outfile FILE [-upload]\n")
        return 1
    infile, outfile = (words[words.index(option) + 1] for option in ("-infile", "-outfile"))
    with open(infile, encoding="utf-8", errors="surrogateescape") as file:
        asked = [ad for ad in read_text(file.read(), form="new") if "Url" in ad and "LocalFileName" in ad]
    good = True
    with open(outfile, "r+b" if os.path.exists(outfile) else "wb") as answers:  # space was set aside in it
        for ad in asked:
            answer = PluginTransfer(ad.eval_str("Url", ""), ad.eval_str("LocalFileName", ""), "-upload" in words).run()
            good = good and bool(answer.eval_bool("TransferSuccess"))
            answers.write(f"{answer.new()}\n".encode("utf-8", "surrogateescape"))
            # The starter reads what was told of the files before if this process is killed.
            answers.flush()
        if answers.tell() < ANSWER_BYTES:
            answers.write(b" " * (ANSWER_BYTES - answers.tell()))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
