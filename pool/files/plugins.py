"""File transfer plug-ins: programs that move files from and to URLs, by HTCondor's protocol for them.

A plug-in says with `-classad` which schemes it serves. It is then run with `-infile` and `-outfile`, and with `-upload`
where files leave: the one file holds an ad for each URL, in the other it answers with an ad for each. Here is what
these texts mean; running programs is the starter's.

Source: HTCondor manual, "Third Party/Delegated file, credential and checkpoint transfer", and "File Transfer
Plugins" (transfer error data).
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from io import StringIO
from typing import Final

from pool.base.errors import ClassAdError, PoolError
from pool.base.url import scheme_of
from pool.classad import ClassAd, parse_long
from pool.classad.forms.lists import read_ads, read_text

BUILT_IN_NAME: Final = "curl_plugin"
BUILT_IN_METHODS: Final = ("http", "https", "ftp", "file", "dav", "davs")
NOT_OPERATIONAL: Final = -1002
CANNOT_START: Final = -1003
"""Subcodes that speak of the machine, not of the job: it is tried elsewhere."""
TOOK_TOO_LONG: Final = errno.ETIME
ANSWER_BYTES: Final = 16 * 1024
"""What is set aside for a plug-in's answers, so that it can speak on a full disk."""
ADS_KEPT_MAX: Final = 100


class BadPlugin(PoolError):
    """A program that does not answer as a plug-in must."""


class UrlFailed(PoolError):
    """Files did not move. `subcode` is what the job's hold says; `elsewhere`: another machine may well do it."""

    def __init__(self, said: str, scheme: str, subcode: int, *, elsewhere: bool = False) -> None:
        super().__init__(said)
        self.scheme, self.subcode, self.elsewhere = scheme, subcode, elsewhere


@dataclass(frozen=True)
class Plugin:
    """A program and what it said of itself. `program` is its file; `from_job`: the job has brought it."""

    program: str
    methods: tuple[str, ...]
    protocol: int = 2
    from_job: bool = False
    attributes: Mapping[str, object] = field(default_factory=dict)
    """What it wants shown in the machine's ads (StartdAttrs)."""

    @property
    def name(self) -> str:
        """The file's name."""
        return posixpath.basename(self.program)


@dataclass(frozen=True)
class UrlFile:
    """One file to move; `path` is absolute, on this machine."""

    url: str
    path: str


def file_name_of(url: str) -> str:
    """The name that a fetched file has in the sandbox."""
    return posixpath.basename(url.partition("?")[0].partition("#")[0].rstrip("/")) or "index.html"


def built_in_plugin() -> Plugin:
    """The plug-in that comes with the pool."""
    return Plugin(BUILT_IN_NAME, BUILT_IN_METHODS, protocol=4)


def read_plugin(program: str, text: str, *, from_job: bool = False) -> Plugin:
    """What a plug-in has printed when it was asked with -classad; BadPlugin says what is wrong with it."""
    try:
        ad = read_text(text)[0] if text.lstrip().startswith("[") else _among_lines(text)
    except (ClassAdError, IndexError) as error:
        raise BadPlugin(f"plugin {program} printed no ad: {error}") from None
    kind = ad.eval_str("PluginType") or ""
    if kind.lower() != "filetransfer":
        raise BadPlugin(f"plugin {program} is not of PluginType FileTransfer (it says {kind!r})")
    methods = tuple(
        method.strip().lower() for method in (ad.eval_str("SupportedMethods") or "").split(",") if method.strip()
    )
    if not methods:
        raise BadPlugin(f"plugin {program} names no SupportedMethods")
    if not ad.eval_bool("MultipleFileSupport", False):
        raise BadPlugin(f"plugin {program} has no MultipleFileSupport: protocol version 1 is not spoken here")
    shown = [name.strip() for name in (ad.eval_str("StartdAttrs") or "").split(",") if name.strip()]
    attributes = {name: ad[name] for name in shown if name in ad}
    return Plugin(program, methods, ad.eval_int("ProtocolVersion") or 2, from_job, attributes)


def _among_lines(text: str) -> ClassAd:
    """The ad that a program has printed, without lines that are no part of one: some plug-ins log to the same pipe."""
    ad = ClassAd()
    for line in text.splitlines():
        try:
            ad.update(parse_long(line).items())
        except ClassAdError:
            continue
    return ad


def brought_plugins(job: ClassAd) -> dict[str, str]:
    """The plug-ins that a job brings along: scheme -> path at the access point (`a,b=plug.py ; c=other`)."""
    found: dict[str, str] = {}
    for part in (job.eval_str("TransferPlugins") or "").split(";"):
        schemes, mark, path = part.partition("=")
        if mark and path.strip():
            found.update((scheme.strip().lower(), path.strip()) for scheme in schemes.split(",") if scheme.strip())
    return found


def request_text(files: Iterable[UrlFile], plugin: Plugin, job: ClassAd) -> str:
    """What a plug-in reads. The job's PluginData goes along: in ads of its own, or, in protocol 2, in each file's."""
    files = list(files)
    extra: list[ClassAd] = []
    if (general := job.get("PluginData")) is not None:
        extra.append(ClassAd({"PluginData": general}))
    for scheme in sorted({scheme_of(file.url).lower() for file in files}):
        if (own := job.get(f"{scheme}_PluginData")) is not None:
            extra.append(ClassAd({"Protocol": scheme, f"{scheme}_PluginData": own}))
    if plugin.protocol >= 4:
        ads = [*extra, *(_file_ad(file, ()) for file in files)]
    else:
        ads = [_file_ad(file, extra) for file in files]
    return "".join(f"{ad.new()}\n" for ad in ads)


def _file_ad(file: UrlFile, extra: Sequence[ClassAd]) -> ClassAd:
    ad = ClassAd({"Url": file.url, "LocalFileName": file.path})
    for more in extra:
        for name, value in more.items():
            if name != "Protocol":
                ad[name] = value
    return ad


def read_answers(text: str) -> list[ClassAd]:
    """The ads of a plug-in's answer, as many as can be read."""
    ads: list[ClassAd] = []
    try:
        for ad in read_ads(StringIO(text.rstrip(" \0\n")), form="new"):
            ads.append(ad)
    except ClassAdError:
        pass
    return ads


def check_answers(
    plugin: Plugin, files: Sequence[UrlFile], answers: Sequence[ClassAd], status: int, *, took_s: float | None = None
) -> None:
    """UrlFailed unless every file has moved. `status` is the exit code, or the negative signal; `took_s`: killed."""
    scheme = scheme_of(files[0].url).lower()
    if took_s is not None:
        said = f"plugin {plugin.name} was killed after {took_s:.0f} s ( URL file = {files[0].url} )"
        raise UrlFailed(said, scheme, TOOK_TOO_LONG)
    by_url = {answer.eval_str("TransferUrl"): answer for answer in answers}
    failed = ""
    for file in files:
        answer = by_url.get(file.url)
        if answer is not None and answer.eval_bool("TransferSuccess"):
            continue
        if answer is None or answer.eval_bool("TransferSuccess") is None:
            reason = f"File transfer plugin {plugin.name} exited without producing a TransferSuccess result"
        else:
            reason = answer.eval_str("TransferError") or "the plugin does not say why"
        failed, scheme = f"{reason} ( URL file = {file.url} )", scheme_of(file.url).lower()
        break
    if not status and not failed:
        return
    how = f"signal {-status} killed" if status < 0 else f"non-zero exit ({status}) from" if status else "exit (0) from"
    failed = failed or f"the plugin fails, although all files have moved ( URL file = {files[0].url} )"
    raise UrlFailed(f"{how} {plugin.name}. {failed}", scheme, -status if status < 0 else status << 8)


class PluginResult(IntEnum):
    """How one run of a plug-in ended, in HTCondor's numbers."""

    SUCCESS = 0
    ERROR = 1
    TIMED_OUT = 3
    EXEC_FAILED = 4


TRANSFER_CLASSES: Final[Mapping[str, int]] = {"Input": 1, "Output": 2, "Checkpoint": 3}


def invocation(
    plugin: Plugin, files: Iterable[UrlFile], status: int | None, took_s: float, *, timed_out: bool
) -> ClassAd:
    """What is recorded of one run of a plug-in. `status`: its exit code or negative signal; None: not started."""
    if status is None:
        result = PluginResult.EXEC_FAILED
    elif timed_out:
        result = PluginResult.TIMED_OUT
    else:
        result = PluginResult.ERROR if status else PluginResult.SUCCESS
    ad = ClassAd(
        {
            "PluginBasename": plugin.name,
            "Schemes": ",".join(sorted({scheme_of(file.url).lower() for file in files})),
            "Result": int(result),
            "DurationInSeconds": int(took_s),
            "ExitBySignal": status is not None and status < 0,
        }
    )
    if status is not None:
        ad["ExitSignal" if status < 0 else "ExitCode"] = abs(status)
    return ad


def stats_of(answers: Iterable[ClassAd], before: object, *, cedar_files: int, cedar_bytes: int) -> ClassAd:
    """TransferInputStats or TransferOutputStats: files and bytes of each scheme, of this run and of all."""
    counts: dict[str, list[int]] = {}
    if cedar_files:
        counts["Cedar"] = [cedar_files, cedar_bytes]
    for answer in answers:
        scheme = answer.eval_str("TransferProtocol") or scheme_of(answer.eval_str("TransferUrl") or "").lower()
        if scheme and answer.eval_bool("TransferSuccess"):
            count = counts.setdefault(scheme.capitalize(), [0, 0])
            count[0] += 1
            count[1] += answer.eval_int("TransferTotalBytes") or answer.eval_int("TransferFileBytes") or 0
    known = before.items() if isinstance(before, ClassAd) else ()
    stats = ClassAd({name: value for name, value in known if name.lower().endswith("total")})
    for scheme, (files, size) in counts.items():
        for what, amount in (("FilesCount", files), ("SizeBytes", size)):
            stats[f"{scheme}{what}"] = amount
            stats[f"{scheme}{what}Total"] = (stats.eval_int(f"{scheme}{what}Total") or 0) + amount
    return stats
