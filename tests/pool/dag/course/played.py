"""A graph played through: what its course wants is answered as a test says, in the order that it says."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pool.dag.course import happenings as it
from pool.dag.course.course import Course, S
from pool.dag.course.states import Settings
from pool.dag.course.step import step
from pool.dag.language.reader import read


def course_of(text: str, settings: Settings = Settings(), **limits: int) -> Course:
    """The course of the graph in this text."""
    settings = settings._replace(limits=settings.limits._replace(**limits)) if limits else settings
    return Course(read(["x.dag"], {"x.dag": text}.__getitem__), settings)


@dataclass
class Played:
    """A graph under way. `codes` are what each attempt's job ends with, by name; 0 where nothing is said."""

    course: Course
    codes: Mapping[str, list[int | None]] = field(default_factory=dict)
    scripts: Mapping[str, list[int]] = field(default_factory=dict)
    """What each run of a script ends with, by `PRE A`."""
    choose: Callable[[int], int] = lambda count: 0
    ran: list[str] = field(default_factory=list)
    """Nodes as they were submitted, and scripts as they ran, with their words."""
    said: list[str] = field(default_factory=list)
    done: list[it.Effect] = field(default_factory=list)
    finished: it.Finish | None = None
    most: int = 0
    """How many nodes were in the queue at once."""
    _open: list[list[it.Event]] = field(default_factory=list)
    _cluster: int = 0
    _tries: dict[str, int] = field(default_factory=dict)

    def begin(self) -> Played:
        """Let it begin."""
        self.happens(it.Begin())
        return self

    def run(self) -> Played:
        """To its end."""
        self.begin()
        while self._open and self.finished is None:
            at = self.choose(len(self._open))
            events = self._open[at]
            event = events.pop(0)
            if not events:
                del self._open[at]
            self.happens(event)
        return self

    def happens(self, event: it.Event) -> list[it.Effect]:
        """This has happened."""
        effects = step(self.course, event)
        for effect in effects:
            self._answer(effect)
        self.most = max(self.most, self.course.submitted)
        return effects

    def _next(self, table: Mapping[str, list[int | None]] | Mapping[str, list[int]], name: str) -> int | None:
        codes = table.get(name, [])
        tries = self._tries[name] = self._tries.get(name, 0) + 1
        return codes[tries - 1] if tries <= len(codes) else 0

    def _answer(self, effect: it.Effect) -> None:
        name = self.course.dag.nodes
        match effect:
            case it.Say(text):
                self.said.append(text)
                return
            case it.Submit(node):
                self._cluster += 1
                cluster = self._cluster
                self.ran.append(name[node].name)
                code = self._next(self.codes, name[node].name)
                end = it.JobEnded(node, cluster, 0, code)
                self._open.append([it.Submitted(node, cluster, 1), it.JobRuns(node, cluster, 0), end])
            case it.RunScript(node, kind, command):
                key = f"{kind} {name[node].name}"
                self.ran.append(" ".join([key, *command[1:]]))
                code = self._next(self.scripts, key)
                self._open.append([it.ScriptEnded(node, kind, code or 0)])
            case it.DeferScript(node, kind):
                self._open.append([it.ScriptDue(node, kind)])
            case it.Pause():
                self._open.append([it.PauseOver()])
            case it.KillScripts():
                kept = [one for one in self._open if not isinstance(one[0], it.ScriptEnded)]
                self._open[:] = kept
            case it.RemoveAll():
                for events in self._open:
                    events[:] = [
                        it.JobEnded(one.node, one.cluster, one.proc) if isinstance(one, it.JobEnded) else one
                        for one in events
                    ]
            case it.Finish():
                self.finished = effect
        self.done.append(effect)

    def state(self, name: str) -> S:
        """Where the node of this name is."""
        return S(self.course.states[[node.name for node in self.course.dag.nodes].index(name)])

    @property
    def code(self) -> int | None:
        """What the graph returns; None while it runs."""
        return None if self.finished is None else self.finished.code


def shuffled(seed: int) -> Callable[[int], int]:
    """Whatever may happen next happens in an order of chance."""
    return random.Random(seed).randrange
