"""Files from and to URLs: the plug-ins of this machine, or of the job itself, run as the job's account in its sandbox.

A plug-in is asked what it can do when the first file needs it. Its two files lie in the sandbox while it runs, as
HTCondor's do; of its own output the starter's log keeps what it wrote when it failed.

Source: HTCondor's manual, "Third Party/Delegated file, credential and checkpoint transfer".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import trio

from daemons.base.log import Log
from daemons.base.writing import write_all
from daemons.host.account import Account, acting_as
from daemons.host.helpers import HelperSpawner
from daemons.host.processes import Processes
from daemons.host.programs import Finished, ProgramError, refusal, run_program
from pool.base.url import scheme_of
from pool.classad import ClassAd
from pool.execute.plan import JOB_AD_NAME, MACHINE_AD_NAME
from pool.files import s3
from pool.files.plugins import (
    ADS_KEPT_MAX,
    ANSWER_BYTES,
    BUILT_IN_NAME,
    CANNOT_START,
    NOT_OPERATIONAL,
    BadPlugin,
    Plugin,
    UrlFailed,
    UrlFile,
    brought_plugins,
    built_in_plugin,
    check_answers,
    invocation,
    read_answers,
    read_plugin,
    request_text,
)
from protocol.rpc.endpoints import RemoteError

NOT_SIGNED: Final = 1
LOG_TEXT_MAX: Final = 2000
ANSWERS_MAX: Final = 16 * 1024 * 1024
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class UrlSettings:
    """What the machine says about plug-ins."""

    plugins: Sequence[str]
    query_s: float = 20.0
    lifetime_s: float = 72000.0
    signs: bool = True
    """Whether URLs of object stores are signed at the access point."""
    jobs_own: str = "allowed"  # "refused": using one fails; "ignored": as if the job had brought none


def is_built_in(path: str) -> bool:
    """Whether this is the pool's own plug-in: it goes by curl_plugin's name where there is no program of that name."""
    return os.path.basename(path) == BUILT_IN_NAME and not os.access(path, os.X_OK)


def argv_of(path: str) -> list[str]:
    """How a plug-in is started."""
    return [sys.executable, "-I", "-m", "daemons.libexec.url_plugin"] if is_built_in(path) else [path]


@dataclass
class UrlMover:
    """One job's transfers through plug-ins."""

    job: ClassAd
    sandbox: str
    account: Account
    processes: Processes
    environment: Mapping[str, str]
    settings: UrlSettings
    log: Log
    known: dict[str, Plugin | BadPlugin]
    """What the machine's plug-ins have said, from one job of this starter to the next."""
    answers: list[ClassAd] = field(default_factory=list)
    """What became of each file, for the job's history."""
    invocations: list[ClassAd] = field(default_factory=list)
    """What became of each run of a plug-in."""
    sign: Callable[[list[str], bool], Awaitable[list[str]]] | None = None
    """Makes https URLs of those of object stores, which their owner's keys sign; None where plug-ins take them."""

    async def download(self, files: Sequence[UrlFile]) -> int:
        """Fetch these; how many bytes came. UrlFailed names the first that did not."""
        return await self._move(files, upload=False)

    async def upload(self, files: Sequence[UrlFile]) -> int:
        """Send these; how many bytes went."""
        return await self._move(files, upload=True)

    async def _move(self, files: Sequence[UrlFile], *, upload: bool) -> int:
        moved = 0
        files, named = await self._signed(files, upload)
        for plugin, its_files in await self._by_plugin(files):
            try:
                moved += await self._run(plugin, its_files, upload=upload)
            except UrlFailed as error:
                said = str(error)
                for secret, url in named.items():
                    # A plug-in may quote what it was given, and the hold reason is read by many.
                    said = said.replace(secret, url)
                raise UrlFailed(said, error.scheme, error.subcode, elsewhere=error.elsewhere) from None
            finally:
                self._hide(named)
        return moved

    async def _signed(self, files: Sequence[UrlFile], upload: bool) -> tuple[Sequence[UrlFile], dict[str, str]]:
        """The files with URLs that plug-ins can use; and what of these is to be called how, where it may be read."""
        urls = [file.url for file in files if s3.needs_signature(file.url)]
        if not urls or self.sign is None:
            return files, {}
        try:
            secrets = dict(zip(urls, await self.sign(urls, upload), strict=True))
        except RemoteError as error:
            raise UrlFailed(f"{error} ( URL file = {urls[0]} )", scheme_of(urls[0]).lower(), NOT_SIGNED) from None
        named = {secret: url for url, secret in secrets.items()}
        return [replace(file, url=secrets.get(file.url, file.url)) for file in files], named

    def _hide(self, named: Mapping[str, str]) -> None:
        """A signed URL is a key: the job's ad shows the URL that the job has named."""
        for answer in self.answers if named else ():
            url = answer.eval_str("TransferUrl") or ""
            if url in named:
                answer["TransferUrl"] = named[url]
                if said := answer.eval_str("TransferError"):
                    answer["TransferError"] = said.replace(url, named[url])

    # ---- which plug-in

    async def _by_plugin(self, files: Iterable[UrlFile]) -> list[tuple[Plugin, list[UrlFile]]]:
        groups: dict[str, tuple[Plugin, list[UrlFile]]] = {}
        for file in files:
            plugin = await self._plugin_for(file)
            groups.setdefault(plugin.program, (plugin, []))[1].append(file)
        return list(groups.values())

    async def _plugin_for(self, file: UrlFile) -> Plugin:
        """The job's own where it has one, else the machine's last one for the scheme."""
        scheme = scheme_of(file.url).lower()
        if self.settings.jobs_own != "ignored" and (path := brought_plugins(self.job).get(scheme)):
            if self.settings.jobs_own == "refused":
                said = f"user-supplied plugin {path} not allowed ( URL file = {file.url} )"
                raise UrlFailed(said, scheme, NOT_OPERATIONAL)
            own = os.path.join(self.sandbox, os.path.basename(path))
            try:
                return await self._ask(own, from_job=True)
            except BadPlugin as error:
                raise UrlFailed(f"{error} ( URL file = {file.url} )", scheme, NOT_OPERATIONAL) from None
        problem = ""
        # The last plug-in of FILETRANSFER_PLUGINS that takes a scheme has it, as in HTCondor.
        for path in reversed(self.settings.plugins):
            if path not in self.known:
                try:
                    self.known[path] = await self._ask(path, from_job=False)
                except BadPlugin as error:
                    self.known[path] = error
                    self.log.always("A file transfer plugin does not work", plugin=path, reason=str(error))
            plugin = self.known[path]
            if isinstance(plugin, Plugin):
                if scheme in plugin.methods:
                    return plugin
            else:
                problem = f" (plugin {path} is not operational)"
        said = f"no file transfer plugin of this machine can move {file.url}{problem} ( URL file = {file.url} )"
        raise UrlFailed(said, scheme, NOT_OPERATIONAL, elsewhere=bool(problem))

    async def _ask(self, path: str, *, from_job: bool) -> Plugin:
        if not from_job:
            if is_built_in(path):
                return built_in_plugin()
            if reason := refusal(path):
                raise BadPlugin(reason)
        try:
            end = await self._start([*argv_of(path), "-classad"], self.settings.query_s)
        except ProgramError as error:
            raise BadPlugin(str(error)) from None
        if end.status or end.timed_out:
            raise BadPlugin(f"plugin {path} -classad {end}")
        return read_plugin(path, end.stdout, from_job=from_job)

    # ---- running it

    async def _run(self, plugin: Plugin, files: Sequence[UrlFile], *, upload: bool) -> int:
        base = os.path.join(self.sandbox, f".{plugin.name}")
        infile, outfile = f"{base}.in", f"{base}.out"
        words = ["-infile", infile, "-outfile", outfile, *(["-upload"] if upload else [])]
        built_in = plugin.program == BUILT_IN_NAME
        argv = argv_of(BUILT_IN_NAME) if built_in else [plugin.program]
        try:
            self._write(infile, request_text(files, plugin, self.job).encode("utf-8", "surrogateescape"))
            # Room is set aside: a plug-in that has filled the disk can still say so.
            self._write(outfile, b" " * ANSWER_BYTES)
            began = trio.current_time()
            try:
                end = await self._start([*argv, *words], self.settings.lifetime_s)
            except ProgramError as error:
                self._note(invocation(plugin, files, None, 0.0, timed_out=False))
                scheme = scheme_of(files[0].url).lower()
                said = f"Failed to execute {plugin.program}: {error}"
                raise UrlFailed(said, scheme, CANNOT_START, elsewhere=not plugin.from_job) from None
            took_s = trio.current_time() - began
            self._note(invocation(plugin, files, end.status, took_s, timed_out=end.timed_out))
            answers = read_answers(self._read(outfile))
        finally:
            self._remove(infile, outfile)
        for answer in answers:
            answer["PluginExitCode" if end.status >= 0 else "PluginExitSignal"] = abs(end.status)
        self.answers = [*self.answers, *answers][:ADS_KEPT_MAX]
        if end.status or end.timed_out:
            said = (end.stdout + end.stderr).strip()[-LOG_TEXT_MAX:]
            self.log.always("A file transfer plugin failed", plugin=plugin.name, how=str(end), said=said)
        check_answers(plugin, files, answers, end.status, took_s=self.settings.lifetime_s if end.timed_out else None)
        return sum(
            answer.eval_int("TransferTotalBytes") or answer.eval_int("TransferFileBytes") or 0 for answer in answers
        )

    def _note(self, invoked: ClassAd) -> None:
        if len(self.invocations) < ADS_KEPT_MAX:
            self.invocations.append(invoked)

    async def _start(self, argv: Sequence[str], limit_s: float) -> Finished:
        return await run_program(
            HelperSpawner(self.processes, self.account),
            argv,
            environment={
                **self.environment,
                "_CONDOR_JOB_AD": os.path.join(self.sandbox, JOB_AD_NAME),
                "_CONDOR_MACHINE_AD": os.path.join(self.sandbox, MACHINE_AD_NAME),
            },
            directory=self.sandbox,
            timeout_s=limit_s,
        )

    # ---- its files

    def _write(self, path: str, data: bytes) -> None:
        with acting_as(self.account):
            fd = os.open(path, _NEW_FILE, 0o600)
            try:
                write_all(fd, data)
            finally:
                os.close(fd)

    def _read(self, path: str) -> str:
        with acting_as(self.account):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return ""
            with open(fd, encoding="utf-8", errors="replace") as file:
                return file.read(ANSWERS_MAX)

    def _remove(self, *paths: str) -> None:
        with acting_as(self.account):
            for path in paths:
                try:
                    os.unlink(path)
                except OSError:
                    continue
