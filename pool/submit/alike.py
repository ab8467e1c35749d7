"""One description that is submitted again and again with macros of other values, as for the nodes of a graph.

It is read once with stand-ins for those values (`template.py`), and then filled in. What a value decides (a condition,
a request, an argument of a function) is the same wherever one template is used: such a value is part of the template's
key. What was asked of files when a template was made is asked again each time. Where all this does not do, the
description is read as a whole, and both ways give the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from pool.base.errors import PoolError, SubmitError
from pool.config import Config
from pool.macros.expand import Chance, Expander, Reference
from pool.macros.macro_set import MacroSet
from pool.submit.job import JobDraft, SubmitSurroundings
from pool.submit.plan import SubmitPlan, read_in, read_submit
from pool.submit.scope import Scope
from pool.submit.template import (
    SIZED,
    Decides,
    StandIns,
    TemplateJob,
    decides,
    filling_of,
    is_line,
    is_word,
    put_sizes,
    value_in,
)
from pool.submit.world import SubmitWorld

T = TypeVar("T")

TEMPLATES_MAX: Final = 50
"""How many a description may have. A value that decides, and differs each time, would have one for every submission."""
_TIMES: Final = frozenset(("submit_time", "year", "month", "day"))


class Description:
    """The description `text`, of submissions from one directory."""

    def __init__(
        self, text: str, *, config: Config, cwd: str, env: Mapping[str, str], user: str, world: SubmitWorld,
        queue_args: str | None, chance: Chance | None = None,
    ) -> None:  # fmt: skip
        self.text = text
        self.config, self.cwd, self.env, self.user, self.world = config, cwd, env, user, world
        self.queue_args, self.chance = queue_args, chance
        self._deciding: set[str] = set()
        """Macros whose values decide something."""
        self._words: set[str] = set()
        """Macros whose values must be words to be filled in."""
        self._templates: dict[object, _Template | None] = {}
        self._names_file = "submit_file" in text.lower()

    def plan(self, extra: Sequence[str], appended: Sequence[str], *, file: str, now: float) -> SubmitPlan:
        """What it asks for with these lines `NAME=value`, before it and before each of its queue statements."""
        lines = _Lines.of(extra, appended)
        template = self._template(lines, file)
        filled = None if template is None else template.filled(lines, now)
        if filled is not None:
            return filled
        return read_submit(
            self.text, config=self.config, file=file, cwd=self.cwd, env=self.env, extra=extra, appended=appended,
            queue_args=self.queue_args, now=now, user=self.user, world=self.world, skip_checks=True,
            chance=self.chance,
        )  # fmt: skip

    def _template(self, lines: _Lines, file: str) -> _Template | None:
        """The one that lines like these share; None where each of them is to be read."""
        while True:
            changing = [self._may_change(name, value) for name, value in lines.pairs]
            said = (name if may else (name, value) for may, (name, value) in zip(changing, lines.pairs, strict=True))
            key = (file if self._names_file else "", lines.before, *said)
            known = self._templates.get(key)
            if known is not None and known.holds():
                if known.words <= self._words:
                    return known
                self._words |= known.words
                continue
            if known is None and (key in self._templates or len(self._templates) >= TEMPLATES_MAX):
                return None
            decided = len(self._deciding)
            made = self._made(lines, changing, file)
            if len(self._deciding) == decided:
                self._templates[key] = made

    def _made(self, lines: _Lines, changing: Sequence[bool], file: str) -> _Template | None:
        """A template; None where there can be none, or where some values turn out to decide."""
        stand_ins = StandIns()
        try:
            return _Template(self, lines, changing, stand_ins, file)
        except Decides as why:
            deciding = {lines.pairs[index - 1][0] for index in stand_ins.inside(str(why)) if index}
            if deciding:
                self._deciding |= deciding
                self._templates.clear()
        except PoolError:  # it is said when the description is read
            pass
        return None

    def _may_change(self, name: str, value: str) -> bool:
        return name not in self._deciding and (is_word(value) or (name not in self._words and is_line(value)))


class _Lines(NamedTuple):
    """Lines of macros: names with their values, and how many of them come before the description."""

    pairs: list[tuple[str, str]]
    before: int

    @classmethod
    def of(cls, extra: Sequence[str], appended: Sequence[str]) -> _Lines:
        halves = (line.partition("=") for line in (*extra, *appended))
        return cls([(name, value) for name, _, value in halves], len(extra))


class _Template:
    """The plan of all lines that differ from these in the values that may change."""

    def __init__(
        self, of: Description, lines: _Lines, changing: Sequence[bool], stand_ins: StandIns, file: str
    ) -> None:
        cluster = stand_ins.add("cluster")
        # Each line has one, so that a number says which; where the value stays, nothing has it.
        values = [stand_ins.add(name) for name, _ in lines.pairs]
        shown = [
            f"{name}={value if may else own}"
            for may, value, (name, own) in zip(changing, values, lines.pairs, strict=True)
        ]
        if stand_ins.stand_in(of.text):
            raise Decides
        self._asked = _Asked(of.world, stand_ins)
        warnings: list[str] = []
        scope = _Scope(of, stand_ins, file)
        around = SubmitSurroundings(
            config=of.config, world=self._asked.world(), cwd=of.cwd, environ=of.env, now=0, user=of.user,
            warn=warnings.append, skip_checks=True,
        )  # fmt: skip
        plan = read_in(
            scope, around, of.text, extra=shown[: lines.before], appended=shown[lines.before :],
            queue_args=of.queue_args, warnings=warnings, cluster=int(cluster), kind=_kind(scope, stand_ins),
        )  # fmt: skip
        if plan.count != 1 or plan.late or plan.job_set is not None:
            raise Decides
        self._plan, self._world = plan, of.world
        self.needs_cluster_id = plan.needs_cluster_id
        self.warnings = list(dict.fromkeys(warnings))
        self._unused = [stand_ins.parts(said) for said in plan.unused()]
        self._fillings = [one for name, value in plan.cluster_ad.own() if (one := filling_of(name, value, stand_ins))]
        for text in self.warnings:
            if stand_ins.stand_in(text):
                raise Decides(text)
        for one in self._fillings:
            if decides(one):
                raise Decides("".join(stand_ins.texts[index] for index in one.order))
        words = {index for one in self._fillings if one.words_only for index in one.order}
        self.words = {lines.pairs[index - 1][0] for index in words if index}
        sized = any(one.key in SIZED for one in self._fillings)
        self._sizes_change = sized and scope.param("disk_usage") is None

    def holds(self) -> bool:
        """Whether files are as they were."""
        return self._asked.is_still_so()

    def filled(self, lines: _Lines, now: float, cluster: int = 1) -> SubmitPlan | None:
        """The plan for these lines; None where a value would not be the word or the line that its stand-in is."""
        values = [str(cluster), *(value for _, value in lines.pairs)]
        ad = self._plan.cluster_ad.copy()
        attrs = ad.attrs
        for one in self._fillings:
            attrs[one.key] = value = value_in(one, one.format % tuple([values[index] for index in one.order]))
            if value is None:
                return None
        attrs["qdate"] = attrs["enteredcurrentstatus"] = int(now)
        draft = JobDraft(self._plan.scope, self._plan.around, 0, None)
        draft.ad = ad
        # The files of this one: what a template was told of them is asked again, but of those it knows nothing.
        draft.around = draft.around.with_world(self._world)
        if self._sizes_change and not put_sizes(draft, ad):
            return None
        unused = [said % tuple([values[index] for index in order]) if order else said for said, order in self._unused]
        return _FilledPlan(self, self._plan, draft, unused, lines, now)


class _FilledPlan(SubmitPlan):
    """What a template was filled in to be."""

    def __init__(
        self, template: _Template, plan: SubmitPlan, job: JobDraft, unused: list[str], lines: _Lines, now: float
    ) -> None:
        super().__init__(plan.scope, plan.around, plan.batches, 1, [*template.warnings])
        self._first = job
        self._template, self._unused, self._lines, self._now = template, unused, lines, now

    @property
    def needs_cluster_id(self) -> bool:
        return self._template.needs_cluster_id

    @property
    def job_set(self) -> None:
        return None

    def for_cluster(self, cluster: int) -> SubmitPlan:
        filled = self._template.filled(self._lines, self._now, cluster)
        assert filled is not None  # a number is a word
        return filled

    def unused(self) -> list[str]:
        return self._unused


class _Asked:
    """What is asked of files for a template, with the answers."""

    def __init__(self, real: SubmitWorld, stand_ins: StandIns) -> None:
        self._real, self._stand_ins = real, stand_ins
        self._answers: list[tuple[Callable[[str], object], str, object]] = []

    def world(self) -> SubmitWorld:
        """The real one, whose answers are kept. Of a path that changes nothing is known yet."""
        real = self._real
        return SubmitWorld(
            glob=self._kept(real.glob),
            read_file=self._kept(real.read_file),
            has_crlf=self._kept(real.has_crlf),
            size=self._kept(real.size, 0),
            is_dir=self._kept(real.is_dir, True),
            run=_refuses,
        )

    def _kept(self, ask: Callable[[str], T], of_changing: T | None = None) -> Callable[[str], T]:
        def asked(path: str) -> T:
            if not self._stand_ins.stand_in(path):
                answer = ask(path)
                self._answers.append((ask, path, answer))
                return answer
            if of_changing is None:
                raise Decides(path)
            return of_changing

        return asked

    def is_still_so(self) -> bool:
        """Whether all of it is answered as before."""
        try:
            return all(ask(path) == answer for ask, path, answer in self._answers)
        except OSError:
            return False


def _refuses(command: str) -> str:
    # What a command says is another thing each time.
    raise Decides


class _Scope(Scope):
    """Names of which some mean stand-ins. None of these may decide how the description is read."""

    def __init__(self, of: Description, stand_ins: StandIns, file: str) -> None:
        super().__init__(MacroSet(), of.config, environ=of.env, cwd=of.cwd, now=0, chance=None)
        self.defaults["submit_file"] = file
        self.stand_ins = stand_ins
        self.reading = True
        """Whether it is still read, and no job made yet."""
        self.seen = ""
        """The stand-ins that have been looked up."""
        self.expander = _Expander(self)

    def lookup(self, name: str) -> str | None:
        text = super().lookup(name)
        if text is not None:
            if self.stand_ins.stand_in(text):
                self.seen += text
            elif name.lower() in _TIMES:
                raise Decides
        return text

    def expand(self, text: str) -> str:
        said = super().expand(text)
        if self.reading and self.stand_ins.stand_in(said):
            raise Decides(said)
        return said


class _Expander(Expander):
    """Lets no stand-in into a function, which would make something else of it."""

    __slots__ = ("_scope",)

    def __init__(self, scope: _Scope) -> None:
        before = scope.expander
        super().__init__(scope.lookup, environ=before.environ, cwd=before.cwd, error=SubmitError)
        self._scope = scope

    def value_of(self, one: Reference) -> str:
        if not one.function or one.function == "ENV":
            return super().value_of(one)
        if one.function.startswith("RANDOM"):
            raise Decides
        before, self._scope.seen = self._scope.seen, ""
        value = super().value_of(one)
        if self._scope.seen:
            raise Decides(self._scope.seen)
        self._scope.seen = before
        return value


def _kind(scope: _Scope, its: StandIns) -> type[JobDraft]:
    class _Job(TemplateJob):
        stand_ins = its

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            scope.reading = False

    return _Job
