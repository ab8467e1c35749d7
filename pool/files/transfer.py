"""Which files move: what goes into the sandbox, what comes back, under which names, and what a peer may not name.

Names in a sandbox are relative, with `/`. Paths of the access point are absolute once they leave this module: the job's
Iwd is in front of the relative ones.

* A peer names no file that the job's ad does not: an output is listed, or at the top of the sandbox, or refused.
* Standard files always go back; other output as when_to_transfer_output and the job's exit say (`output_wanted`).
* A name is remapped (transfer_output_remaps) before it is a path; a URL as its target is a plug-in's to serve.

Source: HTCondor manual, "Submitting Jobs Without a Shared File System", and "condor_submit" (transfer_input_files ...).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from pool.base.errors import PeerError, UserError
from pool.base.url import is_url
from pool.classad import ClassAd
from pool.execute.plan import NULL, OWN_NAMES, STDERR_NAME, STDOUT_NAME, same_output_name
from pool.files.plugins import brought_plugins, file_name_of

NAME_BYTES_MAX: Final = 255
PATH_BYTES_MAX: Final = 4096
CHARACTER_BYTES_MAX: Final = 4


@dataclass(frozen=True)
class InputItem:
    """A file or directory of the access point that goes into the sandbox as `name`.

    `contents`: of a directory, only what is in it goes (it was given with a trailing `/`), and `name` is where to.
    """

    source: str
    name: str
    contents: bool = False
    program: bool = False


@dataclass(frozen=True)
class Stamp:
    """By what a file is known to be unchanged."""

    mtime_ns: int
    size: int
    inode: int = 0


def file_list(ad: ClassAd, name: str) -> list[str] | None:
    """The names in a comma-separated attribute; None when it is undefined."""
    text = ad.eval_str(name)
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


INPUT_LISTS: Final = ("TransferInput", "CommonInputFiles", "PublicInputFiles")
"""Attributes that list input. What jobs share, and what may be fetched over HTTP, goes the same way as the rest."""


def listed_inputs(job: ClassAd) -> list[str]:
    """The files and URLs that the job lists as input, each once."""
    return list(dict.fromkeys(path for name in INPUT_LISTS for path in file_list(job, name) or ()))


def input_items(job: ClassAd) -> list[InputItem]:
    """What to send for this job, its program first; UserError names what cannot be sent."""
    items: list[InputItem] = []
    if job.eval_bool("TransferExecutable", True) and (command := job.eval_str("Cmd")):
        items.append(InputItem(_source(job, command), posixpath.basename(command), program=True))
    stdin = job.eval_str("In")
    if stdin and stdin != NULL and job.eval_bool("TransferIn", True) and not job.eval_bool("StreamIn", False):
        items.append(InputItem(_source(job, stdin), posixpath.basename(stdin)))
    for path in dict.fromkeys(brought_plugins(job).values()):
        if not is_url(path):
            items.append(InputItem(_source(job, path), posixpath.basename(path), program=True))
    if proxy := job.eval_str("X509UserProxy"):
        items.append(InputItem(_source(job, proxy), posixpath.basename(proxy)))
    for path in listed_inputs(job):
        if not is_url(path):
            items.append(_listed_item(job, path))
    return items


def url_inputs(job: ClassAd) -> list[tuple[str, str]]:
    """What a plug-in fetches for this job: each URL, and its file's name in the sandbox."""
    return [(path, file_name_of(path)) for path in listed_inputs(job) if is_url(path)]


def _listed_item(job: ClassAd, path: str) -> InputItem:
    contents = path.endswith("/")
    name = posixpath.basename(path.rstrip("/"))
    if job.eval_bool("PreserveRelativePaths", False) and not path.startswith("/"):
        name = posixpath.normpath(path)
        if name.startswith(".."):
            raise UserError(f"{path} cannot keep its relative path: it leads out of the sandbox")
        name = posixpath.dirname(name) if contents else name
    elif contents:
        name = ""
    return InputItem(_source(job, path), "" if name == "." else name, contents)


def _source(job: ClassAd, path: str) -> str:
    return posixpath.normpath(posixpath.join(job.eval_str("Iwd") or "/", path))


def listed_outputs(job: ClassAd) -> list[str] | None:
    """The files that the job says it makes; None when new and changed files are to be found."""
    return file_list(job, "TransferOutput")


def new_or_changed(before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> list[str]:
    """The names of the files at the top of the sandbox that the job made or changed."""
    return sorted(name for name, stamp in after.items() if name not in OWN_NAMES and before.get(name) != stamp)


def output_name(job: ClassAd, path: str) -> str:
    """Under which name an output that the job listed as `path` is sent: the last part, or the path when asked for."""
    path = path.rstrip("/")
    if job.eval_bool("PreserveRelativePaths", False) and not path.startswith("/"):
        return posixpath.normpath(path)
    return posixpath.basename(path)


def standard_outputs(job: ClassAd) -> list[str]:
    """The sandbox's names of the standard files that go back when the job is over."""
    return _standard(job, streamed=False)


def streamed_outputs(job: ClassAd) -> list[str]:
    """The sandbox's names of the standard files that go back while the job runs."""
    return _standard(job, streamed=True)


def _standard(job: ClassAd, *, streamed: bool) -> list[str]:
    names: list[str] = []
    if _moves(job, "Out") and _streams(job, "Out") is streamed:
        names.append(STDOUT_NAME)
    if _moves(job, "Err") and same_output_name(job) == STDERR_NAME and _streams(job, "Err") is streamed:
        names.append(STDERR_NAME)
    return names


def _moves(job: ClassAd, name: str) -> bool:
    path = job.eval_str(name)
    return bool(path) and path != NULL and bool(job.eval_bool(f"Transfer{name}", True))


def _streams(job: ClassAd, name: str) -> bool:
    return bool(job.eval_bool(f"Stream{name}", False)) and not is_url(job.eval_str(name) or "")


def streamed_input(job: ClassAd) -> str | None:
    """The path at the access point of an input that is sent as the job reads it."""
    path = job.eval_str("In")
    if not path or path == NULL or not job.eval_bool("TransferIn", True) or not job.eval_bool("StreamIn", False):
        return None
    return _source(job, path)


def streamed_to(job: ClassAd, name: str) -> str:
    """Where at the access point a stream goes; PeerError when this job has no such stream."""
    if name not in streamed_outputs(job):
        raise PeerError(f"{name} is no stream of this job")
    return posixpath.join(job.eval_str("Iwd") or "/", job.eval_str("Out" if name == STDOUT_NAME else "Err") or NULL)


def output_wanted(job: ClassAd, exit_code: int | None) -> bool:
    """Whether the files go back after the job ended with this code (None: a signal); standard files always do."""
    when = (job.eval_str("WhenToTransferOutput") or "ON_EXIT").upper()
    if when == "NEVER":
        return False
    if when == "ON_SUCCESS":
        return exit_code == (job.eval_int("JobSuccessExitCode") or 0)
    return True


def failure_files(job: ClassAd, exit_code: int | None) -> list[str]:
    """What goes back instead of the output of a job that has failed, as far as it is there (FailureFiles)."""
    when = (job.eval_str("WhenToTransferOutput") or "").upper()
    return file_list(job, "FailureFiles") or [] if when == "ON_SUCCESS" and not output_wanted(job, exit_code) else []


class Destinations:
    """Where a job's outputs go; its ad is read once, for however many files there are."""

    def __init__(self, job: ClassAd) -> None:
        self._iwd = job.eval_str("Iwd") or "/"
        self._standard = {STDOUT_NAME: job.eval_str("Out") or "", STDERR_NAME: job.eval_str("Err") or ""}
        self._wanted = frozenset(standard_outputs(job))
        self._remaps = remaps_of(job)
        whole = job.eval_str("OutputDestination")
        self._whole = whole if whole and is_url(whole) else ""
        listed = listed_outputs(job)
        failing = file_list(job, "FailureFiles") or []
        self._expected = None if listed is None else frozenset(output_name(job, path) for path in [*listed, *failing])

    def place(self, name: str) -> str:
        """Where at the access point the file sent as `name` goes; PeerError when this job has no such output."""
        check_name(name)
        if (url := self.url(name)) is not None:
            raise PeerError(f"{name} goes to {url}, not here")
        if name in self._standard:
            if name not in self._wanted:
                raise PeerError(f"{name} is not wanted by this job")
            return posixpath.join(self._iwd, self._standard[name] or NULL)
        self._check_expected(name)
        return posixpath.join(self._iwd, _remapped(self._remaps, name))

    def url(self, name: str) -> str | None:
        """The URL that the output sent as `name` goes to; None when it goes to the access point.

        A remap to a URL counts first; then OutputDestination takes all but the standard files, which go where their own
        names say: beneath a URL that is the destination itself, or ends with `/`.
        """
        place = self._standard.get(name)
        if place is not None:
            if not is_url(place):
                return None
            beneath = place.endswith("/") or place.rstrip("/") == self._whole.rstrip("/")
            return f"{place.rstrip('/')}/{name}" if beneath else place
        if not self._remaps and not self._whole:
            return None
        target = _remapped(self._remaps, name)
        if is_url(target):
            return target
        return f"{self._whole.rstrip('/')}/{target.lstrip('/')}" if self._whole else None

    def names(self, name: str) -> bool:
        """Whether the job's description speaks of the output sent as `name`, and not the job alone."""
        return name in self._standard or self._expected is not None or _remapped(self._remaps, name) != name

    def may_make_way(self, name: str) -> bool:
        """Whether directories on the way to the output sent as `name` are made.

        The description may name new ones below Iwd: for the standard files, and by a remap.
        """
        target = self._standard.get(name) or _remapped(self._remaps, name)
        within = not target.startswith("/") and ".." not in target.split("/")
        return target != name and within

    def url_roots(self) -> list[str]:
        """The URLs at or beneath which this job's outputs go."""
        places = [*self._standard.values(), *self._remaps.values(), self._whole]
        return [place for place in places if is_url(place)]

    def _check_expected(self, name: str) -> None:
        """A listed output, something inside one, or (without a list) any file at the top of the sandbox."""
        expected = self._expected
        if expected is None:
            if "/" in name or name in OWN_NAMES:
                raise PeerError(f"{name} is not an output of this job")
            return
        head = name
        while head:
            if head in expected:
                return
            head = head.rpartition("/")[0]
        if "" in expected or "." in expected or any(path.startswith(name + "/") for path in expected):
            return
        raise PeerError(f"{name} is not in transfer_output_files")


def remaps_of(job: ClassAd) -> dict[str, str]:
    """TransferOutputRemaps: `name = path ; name = path`, a backslash takes `;` and `=` as they are."""
    remaps: dict[str, str] = {}
    for part in re.findall(r"(?:\\.|[^;\\])+", job.eval_str("TransferOutputRemaps") or ""):
        halves = re.findall(r"(?:\\.|[^=\\])+", part)
        if len(halves) == 2:
            name, path = (re.sub(r"\\(.)", r"\1", half.strip()) for half in halves)
            remaps[name] = path
    return remaps


def _remapped(remaps: Mapping[str, str], name: str) -> str:
    """The name after remapping; a remapped directory takes what is in it along."""
    head, rest = name, ""
    while head and remaps:
        if head in remaps:
            target = remaps[head]
            return posixpath.join(target, rest) if rest else target
        head, _, last = head.rpartition("/")
        rest = posixpath.join(last, rest) if rest else last
    return name


def check_name(name: str) -> None:
    """PeerError unless `name` stays where it is put: relative, no `..`, nothing a file system cannot hold."""
    parts = name.split("/")
    if "" in parts or "." in parts or ".." in parts or "\0" in name:
        raise PeerError(f"{name!r} is not a name inside a directory")
    if len(name) * CHARACTER_BYTES_MAX <= NAME_BYTES_MAX:
        return
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) > PATH_BYTES_MAX or any(len(part) > NAME_BYTES_MAX for part in raw.split(b"/")):
        raise PeerError(f"the name {name[:60]!r}... is too long")


def check_link(name: str, target: str) -> None:
    """PeerError unless the symlink `name` leads to a place within the top directory that it is part of.

    It may go up first and then down, and not up again: what `a/..` is depends on what `a` is, or becomes.
    """
    check_name(name)
    top = name.partition("/")[0]
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if target.startswith("/") or not target or "\0" in target or (reached != top and not reached.startswith(top + "/")):
        raise PeerError(f"the link {name!r} leads out of what is transferred")
    parts = [part for part in target.split("/") if part not in ("", ".")]
    if ".." in parts[sum(1 for _ in takewhile("..".__eq__, parts)) :]:
        raise PeerError(f"the link {name!r} goes up after it has gone down")


def check_names(names: Iterable[str]) -> None:
    """PeerError when a name is unsafe or comes twice."""
    seen: set[str] = set()
    for name in names:
        check_name(name)
        if name in seen:
            raise PeerError(f"{name!r} is sent twice")
        seen.add(name)
