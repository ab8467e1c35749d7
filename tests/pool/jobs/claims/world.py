"""A startd, executions and a network, as far as one claim hears of them; what they say is true, and may be lost or late.

One history is a seed. The world checks after each event what must always hold.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from pool.jobs.claims import events as e
from pool.jobs.claims.states import Busy, ClaimLife, Ended, Over, Releasing, Requesting
from pool.jobs.claims.step import step, taken_up
from pool.jobs.claims.table import Effect

STEPS, LEASE_S = 50, 100.0
ACTS = {
    "answer": 5, "begin": 4, "ask": 5, "report": 3, "starter_dies": 0.5, "conclude": 5, "unneeded": 3, "commit": 6,
    "cut": 0.7, "heal": 2, "link_works": 3, "renew": 1, "vacate": 0.3, "freeze": 0.3, "end_there": 0.5, "give_up": 0.1,
    "spoil": 0.1, "restart": 0.4,
}  # fmt: skip


@dataclass
class Row:
    """What the queue's file has of the claim."""

    activation: str = ""
    runs: bool = False


@dataclass
class World:
    """Everything around one claim."""

    rng: random.Random
    life: ClaimLife = field(default_factory=lambda: ClaimLife(LEASE_S, 0.0))
    now: float = 0.0
    post: list[tuple[float, e.Event]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    # the startd
    holds: bool = False
    there: str = ""
    """The execution that it runs."""
    heard_at: float = 0.0
    connected: bool = True
    says_at: float = 0.0
    # the schedd
    running: str = ""
    """The execution that is not concluded."""
    lost: bool = False
    """The execution knows that nothing runs any more."""
    begun: int = 0
    settled: bool = True
    row: Row | None = None
    written: Row | None = None
    answered: bool = False
    let_in: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)
    """What the schedd must take for started."""
    forgotten: int = 0
    vanished: bool = False

    # ---- what happens to the claim

    def happens(self, event: e.Event) -> None:
        """Hand it an event, do what it wants, and see whether all is as it must be."""
        was = self.life
        life, effects = step(was, event, now=self.now)
        self.told.append(f"{self.now:.0f} {event} -> {life.state} {[one.name for one in effects]}")
        if was.is_over:
            assert (life, effects) == (was, ()), "something is done for a claim that is over"
        assert was.takes_jobs or not life.takes_jobs, "a claim that takes no more jobs takes some again"
        if isinstance(life.state, Ended) and not isinstance(was.state, Ended):
            assert not self.holds, "a claim is taken for ended, and its startd holds it"
        self.life = life
        self.note()
        for effect in effects:
            self.do(effect, event)
        if life.is_over and not was.is_over:
            assert self.forgotten == 1, "a claim is over, and not forgotten"
        if isinstance(event, e.EndedThere | e.NotHeld | e.GivenUp):
            assert isinstance(life.state, Ended | Over | Releasing), "an end is not heeded"
        assert self.lost or not self.running or not isinstance(life.state, Ended), (
            "an execution does not hear of the end"
        )

    def note(self) -> None:
        """The row that the next commit writes."""
        state = self.life.state
        if self.row is not None and not isinstance(state, Over | Ended):
            runs = bool(self.running) and isinstance(state, Busy)
            self.row = Row(self.running if runs else self.life.unreported, runs)

    def do(self, effect: Effect, event: e.Event) -> None:
        match effect:
            case Effect.KEEP:
                self.row = Row()
            case Effect.WITHDRAW:
                self.release()
            case Effect.RELEASE:
                self.tell_release()
            case Effect.PASS_ON:
                assert self.running, "there is nobody to be told"
                if isinstance(event, e.Unreached) and isinstance(self.life.state, Busy):
                    return
                if isinstance(event, e.EndedThere | e.NotHeld | e.Unreached | e.StarterGone):
                    assert self.running != self.there, "a job that runs is taken for gone"
                    self.lost = True
                if isinstance(event, e.Held) and event.activation != self.running:
                    self.lost = True
            case Effect.FORGET:
                self.forgotten += 1
                assert self.forgotten == 1, "forgotten twice"
                assert not self.holds or isinstance(event, e.Refused), "a slot is left behind"
                self.row = None

    # ---- the startd

    def release(self) -> None:
        """The startd hears that the slot is given back."""
        if self.connected and self.holds:
            self.holds, self.there = False, ""
            self.later(e.EndedThere("released"))

    def tell_release(self) -> None:
        life = self.life
        if not self.connected:
            return self.later(e.ReleaseLost())
        may_run = self.there if self.there in self.let_in and self.there not in self.reported else ""
        assert not (life.is_concluded and may_run), "a job that runs is given up for concluded"
        assert life.is_concluded or self.maybe - self.reported, "a job that has reported is told to leave"
        return self.release()

    def answer(self) -> None:
        """The startd answers the request for the slot."""
        if self.answered or not isinstance(self.life.state, Requesting):
            return
        self.answered = True
        if not self.connected or self.rng.random() < 0.1:
            self.happens(e.Refused())
            return
        self.holds, self.heard_at = True, self.now
        self.later(e.Granted(LEASE_S))

    def end_there(self) -> None:
        """The owner wants the machine back, or the slot was given to a better claim."""
        if not self.holds:
            return
        if self.there:
            self.later(e.Vacating(self.there, "PREEMPT"))
        self.holds, self.there = False, ""
        self.later(e.EndedThere("PREEMPT"))

    def vacate(self) -> None:
        if self.holds:
            self.later(e.Vacating(self.rng.choice(["", self.there, "another"])))

    def freeze(self) -> None:
        self.later(e.Frozen(self.rng.choice(["", self.there, "another"])))

    def starter_dies(self) -> None:
        if self.there:
            gone, self.there = self.there, ""
            self.later(e.StarterGone(gone))

    def renew(self) -> None:
        """The schedd says that it lives."""
        if self.connected and self.life.is_alive:
            self.happens(e.Spoken())
            if self.holds:
                self.heard_at = self.now
                if self.rng.random() < 0.8:  # else the answer is lost
                    self.happens(e.Renewed())
            elif not self.post:
                self.happens(e.NotHeld())

    # ---- the network

    def later(self, event: e.Event) -> None:
        """What the startd says comes late, and in its order; without a connection it is lost."""
        if self.connected or isinstance(event, e.ReleaseLost):
            self.says_at = max(self.says_at, self.now + self.rng.choice([0.0, 0.1, 3.0]))
            self.post.append((self.says_at, event))

    def cut(self) -> None:
        if not self.connected:
            return
        self.connected = False
        lost, self.post = self.post, []
        self.happens(e.LinkLost("cut"))
        for _, event in lost:
            if isinstance(event, e.Granted):
                self.holds = False  # a claim without a job whose connection is lost is given up there
                self.happens(e.Refused())

    def heal(self) -> None:
        if self.rng.random() < 0.3 and not self.connected:
            self.happens(e.Unreached())
        else:
            self.connected = True
            self.link_works()

    def link_works(self) -> None:
        """The schedd asks after the claim, where it has to."""
        if not self.connected:
            return
        if self.life.asks_after and not self.post:
            if self.holds:
                self.heard_at = self.now
                self.happens(e.Held(self.there, self.running))
            else:
                self.happens(e.NotHeld())

    def arrives(self, event: e.Event) -> None:
        if isinstance(event, e.Granted):
            self.settled = False
        self.happens(event)
        if self.rng.random() < 0.1 and not isinstance(event, e.Granted):
            self.happens(event)

    def pass_time(self, seconds: float) -> None:
        """Deliver what comes meanwhile; a startd that hears nothing for a lease ends the claim."""
        until = self.now + seconds
        while self.post and (first := min(self.post, key=lambda one: one[0]))[0] <= until:
            self.post.remove(first)
            self.now = max(self.now, first[0])
            self.arrives(first[1])
        self.now = until
        if self.holds and self.now >= self.heard_at + LEASE_S:
            self.end_there()

    # ---- the schedd

    def begin(self) -> None:
        """A job is to have the slot."""
        state, may = self.life.state, self.life.may_have_job
        self.begun += 1
        activation = f"job{self.begun}"
        if may:
            assert not self.running, "a second job is begun"
            self.running, self.lost = activation, False
        self.happens(e.JobGiven(activation))
        assert isinstance(self.life.state, Busy) == (may or isinstance(state, Busy)), "a job is begun where none may be"
        self.settled = self.settled or may

    def ask(self) -> None:
        """The startd is asked to start the job."""
        state = self.life.state
        if not isinstance(state, Busy) or state.asked:
            return
        concluded = self.life.is_concluded
        self.happens(e.Asked())
        self.happens(e.Spoken())
        self.maybe.add(state.activation)
        if not self.connected:
            return
        busy = self.there and not concluded
        if self.holds and not busy and self.rng.random() < 0.8:
            self.there, self.heard_at = state.activation, self.now
            return
        self.maybe.discard(state.activation)
        self.happens(e.NotStarted())
        self.over(reported=False, slot_is_good=False)

    def report(self) -> None:
        """The starter's own report, which needs no startd."""
        if self.running and self.there == self.running and self.running in self.let_in and not self.lost:
            self.over(reported=True)

    def conclude(self) -> None:
        if self.lost:
            self.over(reported=False, slot_is_good=False)

    def over(self, *, reported: bool, slot_is_good: bool = True) -> None:
        self.running, self.lost, self.settled = "", False, False
        if reported:
            self.reported |= self.maybe
        self.happens(e.JobOver(reported, slot_is_good))

    def unneeded(self) -> None:
        """No job is like the last one."""
        if not self.settled and not self.running:
            self.settled = True
            self.happens(e.Unneeded())

    def give_up(self) -> None:
        if not isinstance(self.life.state, Requesting):
            self.happens(e.GivenUp())

    def spoil(self) -> None:
        self.happens(e.Spoiled())

    def commit(self) -> None:
        self.written = self.row
        if self.row is not None and self.row.runs:
            self.let_in.add(self.row.activation)

    def restart(self) -> None:
        """The schedd dies; the next one takes up what was durable."""
        if self.life.is_over:
            return
        self.connected, self.post = False, []
        if self.written is None:
            self.vanished = True
            return
        row, self.row = self.written, self.written
        self.running, self.lost = (row.activation if row.runs else ""), False
        self.settled = True
        if row.activation:
            self.maybe.add(row.activation)
            self.reported.discard(row.activation)  # that was not durable, and is reported again
        renewed_at = self.life.renewed_at
        self.life = taken_up(row.activation, lease_s=LEASE_S, renewed_at=renewed_at, runs=row.runs)
        self.told.append(f"{self.now:.0f} restart -> {self.life}")


def history(seed: int) -> World:
    """One history, to its end."""
    world = World(random.Random(seed))
    acts = [getattr(world, name) for name in ACTS]
    for _ in range(STEPS):
        world.pass_time(world.rng.choice([0.0, 0.0, 0.5, 4.0, 15.0]))
        world.rng.choices(acts, list(ACTS.values()))[0]()
        if world.vanished:
            return world
    _end(world)
    return world


def _end(world: World) -> None:
    """The network is whole again, and every task goes on."""
    for _ in range(20):
        world.connected = True
        world.pass_time(3.0)
        world.answer()
        world.link_works()
        world.ask()
        world.commit()
        world.report()
        world.conclude()
        world.unneeded()
        if world.life.is_over and not world.running:
            break
        if world.running and world.running != world.there and not world.post:
            world.lost = True  # its execution has its own ways to know
    assert world.life.is_over, f"it does not end: {world.life}"
    assert world.forgotten == 1, "it is not forgotten"
    assert not isinstance(world.life.state, Releasing)
