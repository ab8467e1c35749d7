"""A startd, a starter and a user, as far as one execution hears of them; what they say is true, and may be lost or late.

One history is a seed. The world checks after each event what must always hold.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from pool.classad import ClassAd
from pool.jobs.changes import Changes, End, StopReason
from pool.jobs.execution import events as e
from pool.jobs.execution.states import NEVER, ByReport, Execution, Known, Leaving, Lost, Over
from pool.jobs.execution.step import next_at, step, taken_up
from pool.jobs.execution.table import Effect
from pool.jobs.vocabulary.endings import Ending

STEPS = 40
PATIENCE_S = 60.0
ACTS = {
    "prepare": 3, "starter_comes": 5, "starter_speaks": 4, "starter_dies": 0.3, "starter_lost": 0.7, "starter_rests": 1, "startd_lost": 0.7,
    "startd_comes": 2, "stop": 0.5, "unreached": 0.5, "vacate": 0.3, "restart": 0.3, "commit": 4, "claim_ends": 0.05,
}  # fmt: skip


@dataclass
class World:
    """Everything around one execution."""

    rng: random.Random
    one: Execution = field(default_factory=lambda: Execution("slot1@here"))
    now: float = 0.0
    post: list[tuple[float, e.Event]] = field(default_factory=list)
    """What is on its way, and when it comes."""
    told: list[str] = field(default_factory=list)
    # the machine
    runs: bool = False
    """A starter has the job."""
    let_in: bool = False
    """The schedd has answered that starter: the program may run."""
    report: End | None = None
    connected: bool = False
    startd_connected: bool = True
    startd_says_at: float = 0.0
    claim_is_good: bool = True
    # the schedd
    durable: bool = False
    lives: int = 1
    asked: int = 0
    concluded: int = 0
    committed: bool = False
    removed_at: float = NEVER
    counted: int = 0

    # ---- what happens to the execution

    def happens(self, event: e.Event) -> None:
        """Hand it an event, do what it wants, and see whether all is as it must be."""
        was_over = self.one.is_over
        one, effects = step(self.one, event, now=self.now)
        self.told.append(f"{self.now:.0f} {event} -> {one.state} {effects}")
        assert not (was_over and effects), "something is done for an execution that is over"
        if was_over:
            assert one == self.one, "what is over changes"
        if isinstance(event, e.Reported) and not was_over:
            assert isinstance(one.state, Over), "a reported end is not taken"
            assert isinstance(one.state.outcome, ByReport), "a reported end is not believed"
        self.one = one
        for effect in effects:
            self.do(effect)
        assert one.is_over or next_at(one) > self.now, "time has brought something that was not done"
        assert one.is_over or self.now < self.removed_at, "a removed job stays"

    def do(self, effect: Effect) -> None:
        """The schedd's part."""
        match effect:
            case Effect.ASK:
                self.asked += 1
                assert self.asked == 1, "the startd is asked twice to start the job"
                self.start()
            case Effect.TELL:
                self.leave()
            case Effect.COUNT_START:
                self.counted += 1
                assert self.counted == 1, "a start is counted twice"
            case Effect.CONCLUDE:
                self.conclude()

    def conclude(self) -> None:
        self.concluded += 1
        assert self.concluded == 1, "concluded twice"
        assert isinstance(self.one.state, Over)
        outcome = self.one.state.outcome
        given_up = isinstance(outcome, Lost) and outcome.reason.startswith("The job was removed")
        if not isinstance(outcome, ByReport) and not given_up:
            assert not (self.runs and self.let_in), f"{outcome}: the job may run twice"

    # ---- the machine

    def prepare(self) -> None:
        """The schedd has made all ready, or sees that it need not or cannot be run."""
        ready = (e.Prepared(), e.Prepared(), e.Prepared(), e.UpToDate(), e.CannotStart("no file agent"))
        if self.one.known is Known.UNASKED:
            self.happens(self.rng.choice(ready))

    def start(self) -> None:
        """The startd is asked to start it."""
        if not self.startd_connected:
            return self.later(e.AnswerLost("lost"))
        if self.claim_is_good and self.rng.random() < 0.85:
            self.runs = True
            self.later(e.Started())
        else:
            self.later(e.CannotStart("no", slot_is_good=False))
        if self.rng.random() < 0.2:
            self.startd_lost()
        return None

    def leave(self) -> None:
        """The startd is told that it shall leave."""
        if not self.startd_connected:
            return self.later(e.NotTold())
        if not self.claim_is_good:
            return self.later(e.NotHeeded("no such claim"))
        if self.rng.random() < 0.2:
            return self.later(e.NotTold())  # the answer is lost
        if self.runs and self.report is None and self.rng.random() < 0.7:
            self.report = End(Ending.EVICTED, ClassAd(), at=self.now)
        return None

    def starter_comes(self) -> None:
        """The starter connects, if there is one and it is not there."""
        if not self.runs or self.connected:
            return
        if self.one.is_unwelcome or self.committed:
            self.runs = self.let_in = False
            return
        self.connected = True
        self.happens(e.StarterHere())
        self.let_in = self.let_in or (self.durable and not self.one.is_unwelcome)

    def starter_speaks(self) -> None:
        if not (self.runs and self.connected and self.let_in):
            return
        match self.rng.randrange(4):
            case 0:
                self.happens(e.Executing(self.now, ClassAd()))
            case 1:
                self.happens(e.Said(lambda _: Changes()))
            case _:
                if self.report is None:
                    self.report = End(self.rng.choice([*Ending]), ClassAd(), at=self.now)
                self.happens(e.Reported(self.report))
                if self.rng.random() < 0.5:
                    self.happens(e.Reported(self.report))

    def starter_dies(self) -> None:
        """Its connection is read to the end, and the startd sees it go, in any order."""
        if not self.runs:
            return
        was_connected, self.runs, self.connected, self.let_in = self.connected, False, False, False
        words: list[e.Event] = [e.StarterLost("lost")] if was_connected else []
        if was_connected and self.report is not None and self.rng.random() < 0.5:
            words.insert(0, e.Reported(self.report))  # sent before it died
        at = self.now
        for word in words:
            at += self.rng.random()
            self.post.append((at, word))
        if self.startd_connected:
            self.later(e.NothingRuns(End(Ending.FAILED, ClassAd(), "the starter has died")))

    def starter_lost(self) -> None:
        """The network between starter and schedd breaks."""
        if self.connected:
            self.connected = False
            self.happens(e.StarterLost("lost"))

    def starter_rests(self) -> None:
        """It leaves the job alone; it comes again when it is woken."""
        if self.connected and self.let_in:
            self.happens(e.StarterRests())
            self.starter_lost()

    def startd_lost(self) -> None:
        """The network between startd and schedd breaks; what was on its way is lost."""
        if not self.startd_connected:
            return
        self.startd_connected = False
        self.post = [one for one in self.post if isinstance(one[1], e.Reported | e.StarterLost)]
        self.happens(e.SlotLost("lost"))
        if self.one.known is Known.ASKED:
            self.happens(e.AnswerLost("lost"))
        if self.one.is_told:
            self.happens(e.NotTold())

    def unreached(self) -> None:
        """The schedd tries to reach the startd in vain."""
        if not self.startd_connected:
            self.happens(e.SlotAway())

    def vacate(self) -> None:
        """The owner wants the machine back."""
        if self.runs and self.startd_connected:
            self.later(e.Vacated(StopReason("PREEMPT expression evaluated to True")))
            if self.report is None:
                self.report = End(Ending.EVICTED, ClassAd(), at=self.now)

    def startd_comes(self) -> None:
        """The schedd reaches the startd again, and asks what runs."""
        if self.startd_connected or not self.claim_is_good:
            return
        self.startd_connected = True
        self.later(e.SlotRunsIt() if self.runs else e.SlotRunsNothing(self.one.known))

    def claim_ends(self) -> None:
        """The lease runs out: first the startd ends the job, then the schedd gives up waiting."""
        if self.runs:
            self.runs = self.let_in = False
            if self.connected:
                self.connected = False
                self.happens(e.StarterLost("lost"))
        self.claim_is_good = False
        self.happens(e.ClaimLost("JobLeaseDuration expired"))

    # ---- users, and time

    def stop(self) -> None:
        fast = self.rng.random() < 0.3
        patience_s = PATIENCE_S if self.rng.random() < 0.4 else NEVER
        pause_s = self.rng.choice([0.0, 0.0, 5.0])
        self.removed_at = min(self.removed_at, self.now + pause_s + patience_s)
        self.happens(e.Stop(StopReason("asked"), fast=fast, pause_s=pause_s, patience_s=patience_s))

    def restart(self) -> None:
        """The schedd dies; the next one takes up what was durable."""
        self.lives += 1
        self.post = [one for one in self.post if isinstance(one[1], e.Reported)]  # which is repeated
        self.connected = self.startd_connected = False
        if self.committed:
            return
        if not self.durable:
            self.one = Execution("slot1@here", state=Over(Lost("it never was")))
            self.committed, self.concluded = True, 1
            assert not self.let_in, "the program runs, and the queue does not know it"
            return
        self.concluded = 0
        leaving = isinstance(self.one.state, Leaving) or self.one.stop is not None or self.removed_at < NEVER
        patience_s = PATIENCE_S if self.removed_at < NEVER else NEVER
        if self.removed_at < NEVER:
            self.removed_at = self.now + PATIENCE_S
        stop = e.Stop(StopReason("asked"), patience_s=patience_s) if leaving else None
        fresh = Execution("slot1@here")
        counted = self.counted > 0
        self.one = taken_up(fresh, stop, away=self.rng.random() < 0.3, counted=counted, now=self.now)
        self.asked = 1

    def later(self, event: e.Event) -> None:
        """The startd's words come late, and in their order."""
        self.startd_says_at = max(self.startd_says_at, self.now + self.rng.choice([0.0, 0.1, 3.0]))
        self.post.append((self.startd_says_at, event))

    def pass_time(self, seconds: float) -> None:
        """Deliver what comes meanwhile, and wake the execution when it wants to be woken."""
        until = self.now + seconds
        while True:
            self.post.sort(key=lambda one: one[0])
            wake = next_at(self.one)
            comes = self.post[0][0] if self.post else NEVER
            if min(wake, comes) > until:
                break
            self.now = max(self.now, min(wake, comes))
            self.happens(self.post.pop(0)[1] if comes <= wake else e.Time())
        self.now = until

    def commit(self) -> None:
        """The writer has written."""
        self.durable = True
        self.committed = self.committed or self.one.is_over
        self.let_in = self.let_in or (self.connected and not self.one.is_over)


def history(seed: int) -> World:
    """One history, to its end."""
    world = World(random.Random(seed))
    acts = [getattr(world, name) for name in ACTS]
    for _ in range(STEPS):
        world.pass_time(world.rng.choice([0.0, 0.0, 0.5, 4.0, 15.0]))
        world.rng.choices(acts, list(ACTS.values()))[0]()
    world.pass_time(10.0)
    world.claim_ends()
    assert world.one.is_over, "it does not end"
    assert world.concluded == 1, "it is not concluded"
    return world
