"""Many jobs that differ in little: the ad is made once with stand-ins for what changes from job to job, and filled in.

A stand-in is a number that occurs nowhere else. Where it comes out again in an attribute's text, each job's own value
can be put in its place. Where what changes decides something (a request, a yes or no, a universe), there is no
template, and each job is made by all steps. The same holds for a job with a value that the language would read as more
than a word, such as one with quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pool.base.errors import ClassAdError, PoolError, SubmitError
from pool.base.words import SPACE
from pool.classad import ClassAd, expr
from pool.classad.eval.expression import storable
from pool.macros import functions
from pool.macros.expand import Expander, Reference
from pool.macros.macro_set import MacroSet
from pool.submit.job import JobDraft, SubmitSurroundings
from pool.submit.job_ad import SIMPLE, make
from pool.submit.policy import literal
from pool.submit.quoting import is_new_style
from pool.submit.rows import ItemRow, Rows
from pool.submit.scope import Scope
from pool.submit.world import SubmitWorld

# A word means the same wherever it stands; a line does where only its own quotes and edges could matter.
_WORD = re.compile(r"[\w.+:@%=~^-]+(?:/[\w.+:@%=~^-]+)*\Z", re.ASCII)
_LINE = re.compile(r"[^\s\"'\\$](?:[^\"'\\$\n]*[^\s\"'\\$])?\Z")
_DOUBLE = re.compile(r"\s\s|[\t\r]")

_COMMANDS = frozenset(
    (
        *("arguments", "environment", "env", "initialdir", "initial_dir", "job_iwd"),
        *("input", "stdin", "output", "stdout", "error", "stderr"),
        *("transfer_input_files", "transfer_output_files", "transfer_output_remaps"),
    )
)
_KINDS = {name: kind.removeprefix("alias ") for name, _, kind in SIMPLE}
_NUMBERS = frozenset(attribute.lower() for _, attribute, kind in SIMPLE if kind.endswith("int"))
_WORDS_ONLY = frozenset(
    (
        *("arguments", "environment", "env", "iwd", "userlog", "dagmannodeslog", "jobstarterlog", "outputdirectory"),
        *("transferinput", "transferoutput", "transferoutputremaps", "emailattributes"),
    )
)
_DECIDING = frozenset(
    (
        *("cmd", "jobuniverse", "requirements", "shouldtransferfiles", "whentotransferoutput", "transferplugins"),
        *("outputdestination", "jobstatus", "jobsetname", "joblease", "jobleaseduration", "wanttransferpluginmethods"),
    )
)
MARK = "59264081"
"""The digits that all stand-ins have."""
SIZED = frozenset(("transferinput", "in", "iwd"))
"""The attributes that say which files are sent."""
_COUNTERS = ("process", "procid", "step", "row", "itemindex")


class Decides(Exception):
    """Something that changes from job to job decides how the ad is made; the text has the stand-ins of what does."""


class StandIns:
    """The numbers that stand for what changes, and how to get at each job's own value."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[str | Callable[[], str]] = []  # the name of a counter or variable, or a function of the row

    def add(self, value: str | Callable[[], str]) -> str:
        # Fifteen digits: it stays a number through every step, and no user writes it by chance (`_prepare` looks).
        text = f"7{len(self.texts):03}{MARK}{len(self.texts):03}"
        self.texts.append(text)
        self.values.append(value)
        return text

    def stand_in(self, text: str) -> bool:
        return any(one in text for one in self.texts)

    def inside(self, text: str) -> list[int]:
        """Which of them stand in the text."""
        return [index for index, one in enumerate(self.texts) if one in text]

    def parts(self, text: str) -> tuple[str, list[int]]:
        """`text` as a format, and which stand-ins it needs in what order."""
        if not self.texts:
            return text, []
        pieces = re.split("(" + "|".join(self.texts) + ")", text)
        order = [self.texts.index(piece) for piece in pieces[1::2]]
        return "%s".join(piece.replace("%", "%%") for piece in pieces[::2]), order


class _Recorder(Expander):
    """Expands with stand-ins; a function that reads one becomes a stand-in itself."""

    __slots__ = ("real", "stand_ins", "touched")

    def __init__(self, real: Scope, stand_ins: StandIns, lookup: Callable[[str], str | None]) -> None:
        super().__init__(lookup, environ=real.expander.environ, cwd=real.expander.cwd, error=SubmitError)
        self.left = real.expander.left
        self.real = real
        self.stand_ins = stand_ins
        self.touched = False

    def value_of(self, one: Reference) -> str:
        if not one.function or one.function == "ENV":
            return super().value_of(one)
        before, self.touched = self.touched, one.function.startswith("RANDOM")
        try:
            value = functions.evaluate(self, one.function, one.name)
        except PoolError:
            self.touched, value = True, ""
        if self.touched:
            real = self.real.expander
            value = self.stand_ins.add(lambda: real.value_of(one))
        self.touched = before or self.touched
        return value


class _TemplateScope(Scope):
    """A scope in which names that change from job to job mean their stand-ins."""

    def __init__(self, real: Scope, changing: Sequence[str], stand_ins: StandIns) -> None:
        self.macros: MacroSet = real.macros
        self.used = real.used
        self.defaults = {name: text for name, text in real.defaults.items() if name not in changing}
        self.live = {name: stand_ins.add(name) for name in changing if name not in _COUNTERS}
        for name in _COUNTERS:
            if name in changing and name not in self.live:
                self.defaults[name] = stand_ins.add(name)
        self._stand_ins = set(stand_ins.texts)
        self.expander = _Recorder(real, stand_ins, self.lookup)

    def lookup(self, name: str) -> str | None:
        text = super().lookup(name)
        if text is not None and text in self._stand_ins:
            recorder = self.expander
            assert isinstance(recorder, _Recorder)
            recorder.touched = True
        return text


class TemplateJob(JobDraft):
    """Refuses stand-ins where they would decide something."""

    stand_ins: StandIns

    def param(self, name: str, other: str = "") -> str | None:
        text = super().param(name, other)
        if text is None or not self.stand_ins.stand_in(text):
            return text
        kind = _KINDS.get(name.lower(), "")
        if kind in ("int", "uint"):
            if text.strip(SPACE) not in self.stand_ins.texts:
                raise Decides(text)
        elif name.lower() not in _COMMANDS and (not kind or kind == "bool"):
            raise Decides(text)
        return text


class Filling:
    """One attribute that changes."""

    __slots__ = ("format", "is_text", "key", "name", "order", "words_only")

    def __init__(self, name: str, format_: str, order: list[int], is_text: bool, words_only: bool) -> None:
        self.name = name
        self.key = name.lower()
        self.format = format_
        self.order = tuple(order)
        self.is_text = is_text
        self.words_only = words_only


class JobTemplate:
    """The jobs of one queue statement; `fill` answers None for a job that must be made by all steps."""

    def __init__(self, scope: Scope, around: SubmitSurroundings, first: JobDraft, rows: Rows) -> None:
        self._scope = scope
        self._around = around
        self._cluster_ad = first.ad
        shared = first.ad.attrs
        self._shared = shared.__getitem__ if shared.plain else shared.lookup
        self._stand_ins = StandIns()
        self._fillings: list[Filling] = []
        self._constants: list[tuple[str, str, object]] = []
        self._sizes_change = False
        self._needed: list[int] = []
        names = [name.lower() for name in rows.variables]
        try:
            self._works = self._prepare(first, names)
        except (Decides, PoolError):
            self._works = False

    def _prepare(self, first: JobDraft, names: list[str]) -> bool:
        if any(self._scope.param(name) for name in ("transfer_input", "transfer_output", "transfer_error")):
            return False  # what a later job says of these, its cluster has answered in part
        scope = _TemplateScope(self._scope, [*names, *_COUNTERS], self._stand_ins)
        given = self._around.world
        texts = "\n".join(macro.text for macro in scope.macros)
        if self._stand_ins.stand_in(texts):
            return False
        world = SubmitWorld(
            glob=given.glob,
            read_file=given.read_file,
            run=given.run,
            has_crlf=given.has_crlf,
            size=lambda path: 0 if self._stand_ins.stand_in(path) else given.size(path),
            is_dir=lambda path: self._stand_ins.stand_in(path) or given.is_dir(path),
        )
        job = make(scope, self._around.with_world(world), 1, None, None, kind=self._job_class())
        job.ad.attrs.pop("procid", None)
        for name, value in job.ad.own():
            self._attribute(name, value)
        changing = {filling.key for filling in self._fillings}
        # They decide Requirements, which would then differ in more than a word.
        if any(decides(filling) for filling in self._fillings):
            return False
        self._sizes_change = bool(changing & SIZED) and scope.param("disk_usage") is None
        self._needed = sorted({index for filling in self._fillings for index in filling.order})
        return True

    def _job_class(self) -> type[JobDraft]:
        return type("_ThisJob", (TemplateJob,), {"stand_ins": self._stand_ins})

    def _attribute(self, name: str, value: object) -> None:
        """Note an attribute that changes, or differs from the cluster's for all jobs alike."""
        filling = filling_of(name, value, self._stand_ins)
        if filling is not None:
            self._fillings.append(filling)
            return
        same = self._cluster_ad.get(name)
        if type(same) is not type(value) or same != value:
            self._constants.append((name.lower(), name, value))

    def fill(self, row: ItemRow, proc: int) -> ClassAd | None:
        """The ad of the job `proc`, or None."""
        if not self._works:
            return None
        values = self._values(row, proc)
        if values is None:
            return None
        ad = ClassAd(parent=self._cluster_ad)
        attrs = ad.attrs
        attrs["procid"] = proc
        attrs["jobstatus"] = self._shared("jobstatus")
        for key, name, value in self._constants:
            attrs.spell(key, name)
            attrs[key] = value
        for one in self._fillings:
            text = one.format % tuple([values[index] for index in one.order])
            filled = value_in(one, text)
            if filled is None:
                return None
            same = self._shared(one.key)
            if type(same) is not type(filled) or same != filled:
                attrs.spell(one.key, one.name)
                attrs[one.key] = filled
        if self._sizes_change and not self._put_sizes(ad):
            return None
        return ad

    def _values(self, row: ItemRow, proc: int) -> dict[int, str] | None:
        """What the stand-ins stand for in this job; None when one of them is no word where words are needed."""
        values: dict[int, str] = {}
        entered = False
        for index in self._needed:
            source = self._stand_ins.values[index]
            if not isinstance(source, str):
                if not entered:
                    row.enter(self._scope, self._cluster_id(), proc)
                    entered = True
                values[index] = source()
            elif source in row.names:
                values[index] = row.values[row.names.index(source)]
            elif source in ("process", "procid"):
                values[index] = str(proc)
                continue
            else:
                values[index] = str(row.step if source == "step" else row.index)
                continue
            if not is_word(values[index]) and not (is_line(values[index]) and fits_as_line(index, self._fillings)):
                return None
        return values

    def _cluster_id(self) -> int:
        value = self._cluster_ad["ClusterId"]
        assert isinstance(value, int)
        return value

    def _put_sizes(self, ad: ClassAd) -> bool:
        return put_sizes(JobDraft(self._scope, self._around, 1, self._cluster_ad), ad)


def is_word(value: str) -> bool:
    """Whether the value can stand for a stand-in wherever that stands."""
    return _WORD.match(value) is not None


def is_line(value: str) -> bool:
    """Whether it can do so where words are not told apart."""
    return _LINE.match(value) is not None and not _DOUBLE.search(value)


def fits_as_line(index: int, fillings: Iterable[Filling]) -> bool:
    """Whether this stand-in stands in no attribute that takes words alone."""
    return not any(one.words_only and index in one.order for one in fillings)


def filling_of(name: str, value: object, stand_ins: StandIns) -> Filling | None:
    """The attribute as one that changes; None where no stand-in is in it."""
    text = value if isinstance(value, str) else "" if isinstance(value, bool) else literal(value)
    if not stand_ins.stand_in(text):
        # Such as `$(x)e3`: it has become a number that is written in another way.
        if isinstance(value, float) and MARK in repr(value).replace(".", ""):
            raise Decides
        return None
    format_, order = stand_ins.parts(text)
    key = name.lower()
    words_only = key in _WORDS_ONLY or (key == "args" and is_new_style(text))
    return Filling(name, format_, order, isinstance(value, str), words_only)


def decides(one: Filling) -> bool:
    """Whether other attributes hang on this one: they would then differ in more than a word."""
    return one.key in _DECIDING or one.key.startswith("request")


def put_sizes(job: JobDraft, ad: ClassAd) -> bool:
    """DiskUsage and TransferInputSizeMB, for files that change; False when the directory is missing."""
    job.ad = ad
    iwd = ad["Iwd"]
    assert isinstance(iwd, str)
    job.iwd = iwd
    if "iwd" in ad.attrs and not job.around.world.is_dir(iwd):
        return False
    files = job.text("TransferInput")
    total = sum(job.size_kb(name) for name in files.split(",")) if files else 0
    if ad.get("TransferIn") is not False:
        total += job.size_kb(job.text("In") or "/dev/null")
    program = ad.get("ExecutableSize")
    total += program if isinstance(program, int) else 0
    job.put("TransferInputSizeMB", (total + 1023) // 1024)
    job.put("DiskUsage", total)
    return True


def value_in(one: Filling, text: str) -> object:
    """The value of an attribute with the job's own texts in place; None where all steps must look at it."""
    if one.is_text:
        return None if text == "/dev/null" else text
    if text.isdigit() and text.isascii() and len(text) < 19 and (text[0] != "0" or text == "0"):
        return int(text)
    if one.key in _NUMBERS:
        return None
    try:
        return storable(expr(text, old=True))
    except ClassAdError:
        return None
