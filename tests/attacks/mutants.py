"""A client that says what no client would: messages of every kind with values that fit, nearly fit, or do not fit at all.

    python -m tests.attacks.mutants DAEMON ADDRESS DIRECTORY SEED COUNT [messages|frames|strangers]...

DIRECTORY is the pool's, whose certificate it shows then; "-" for none.

It prints what became of them, as JSON: how many answers of each code came, and the tags that were answered with
`internal`. Everything is drawn from the seed.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgpack

import protocol.messages
from pool.base.errors import PoolError
from pool.classad import ERROR, UNDEFINED, AbsTime, ClassAd, RelTime, expr
from protocol.messages.common import Ping
from protocol.network import unix_socket
from protocol.rpc import blocking
from protocol.rpc.envelope import BULK_MARK, EnvelopeKind
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire import codec
from protocol.wire.address import Address
from protocol.wire.frame import frame
from protocol.wire.kinds import encode, resolve
from protocol.wire.message import MESSAGES, Message, Record, StreamRequest, shape_of

LETHAL: Final = frozenset(
    {"Stop", "DaemonsOff", "RestartDaemons", "SetShutdown", "DrainFirst", "DrainMachine", "SetLogLevel", "Reconfigure"}
)
"""Classes of messages by which whoever may send them ends or changes a daemon on purpose."""
ANSWERS: Final = {
    "collector": ("common", "collector"),
    "negotiator": ("common", "negotiator"),
    "schedd": ("common", "schedd", "shadow", "live"),
    "startd": ("common", "startd", "collector"),
    "master": ("common", "master"),
}
"""The modules of messages that a daemon has answers to."""
BATCH: Final = 25
ANSWER_S: Final = 60.0

TEXTS: Final = (
    "", "a", "Machine", "alice@pool", "1.0", "-1.-1", "<127.0.0.1:1>", "\0", "\n", "../../etc/passwd", "/dev/zero", "é\udcff", "x" * 5000,
    "true", "TARGET.Memory > 1", "(((", "MY.A", "slot1@nowhere", "0" * 64, "%s%n", "*",
)  # fmt: skip
NUMBERS: Final = (0, 1, -1, 2, 5, 7, 255, 65536, 2**31, -(2**31), 2**63 - 1, -(2**63))
FLOATS: Final = (0.0, -1.0, 1e308, -1e308, float("inf"), float("nan"), 1e-9)
NAMES: Final = (
    "MyType", "Name", "Machine", "MyAddress", "ClusterId", "ProcId", "Owner", "User", "JobStatus", "Requirements", "Rank", "JobUniverse",
    "Cmd", "Iwd", "UserLog", "Out", "RequestMemory", "RequestCpus", "PeriodicHold", "QDate", "JobPrio", "CronMinute", "Foo", "Cpus",
    "State", "Activity", "SlotType", "LastHeardFrom", "AccountingGroup", "TransferInput", "JobLeaseDuration", "MaxHosts", "ConcurrencyLimits",
)  # fmt: skip
EXPRESSIONS: Final = (
    "1", "undefined", "error", "TARGET.Memory >= MY.RequestMemory", "a", "MY.a + TARGET.b", "time() - QDate > 5", "{1, 2, {3}}",
    "[a = 1; b = a]", 'regexp("(a+)+b", "aaaaaaaa")', "1/0", "ifThenElse(a, b, c)", "strcat(Owner, 1)", "-9223372036854775808 / -1",
)  # fmt: skip


class Mutants:
    """Draws messages."""

    def __init__(self, seed: int, daemon: str) -> None:
        for module in pkgutil.iter_modules(protocol.messages.__path__):
            importlib.import_module(f"protocol.messages.{module.name}")
        self.rng = random.Random(seed)
        self.all = [MESSAGES[tag] for tag in sorted(MESSAGES) if _is_ours(MESSAGES[tag])]
        self.its = [cls for cls in self.all if cls.__module__.rpartition(".")[2] in ANSWERS.get(daemon, ())]

    def message(self) -> tuple[type[Message], object]:
        """A class of message, and a body that one of them may have or may nearly have."""
        cls = self.rng.choice(self.its if self.its and self.rng.random() < 0.95 else self.all)
        body: object = self._body(cls)
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2, 5))):
            body = self._mutated(body)
        return cls, body

    def _body(self, cls: type[Record], depth: int = 0) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, (hint, owner) in shape_of(cls).hints.items():
            if depth > 3 or self.rng.random() < 0.1:
                continue  # the default, or a field that is missing
            values[name] = self._value(resolve(hint, owner, name), depth)
        return values

    def _value(self, hint: Any, depth: int) -> object:
        rng = self.rng
        origin: Any = getattr(hint, "__origin__", None)
        args: tuple[Any, ...] = getattr(hint, "__args__", ())
        if hint is bool:
            return rng.random() < 0.5
        if hint is int:
            return rng.choice(NUMBERS)
        if hint is float:
            return rng.choice(FLOATS)
        if hint is bytes:
            return rng.choice((rng.randbytes(rng.choice((0, 1, 100))), self._table()))
        if hint is None or hint is type(None):
            return None
        if hint is ClassAd:
            return self.ad(depth)
        if origin in (list, tuple, set, frozenset):
            return [self._value(args[0], depth + 1) for _ in range(rng.choice((0, 1, 1, 2, 7)))]
        if origin is dict or "Mapping" in str(origin):
            return {rng.choice(NAMES): self._value(args[1], depth + 1) for _ in range(rng.choice((0, 1, 3)))}
        if "Literal" in str(origin):
            return rng.choice(args)
        if args:
            return self._value(rng.choice(args), depth)
        if isinstance(hint, type) and issubclass(hint, Message) and hint is not Message:
            return [hint.tag, self._body(hint, depth + 1)] if rng.random() < 0.5 else self._body(hint, depth + 1)
        if isinstance(hint, type) and issubclass(hint, Record):
            return self._body(hint, depth + 1)
        if hasattr(hint, "__members__"):
            return rng.choice([member.value for member in hint])
        if isinstance(hint, type) and issubclass(hint, str):
            return rng.choice(TEXTS)
        return self._scalar()

    def ad(self, depth: int = 0) -> ClassAd:
        """An ad with names that mean something and values that may not."""
        ad = ClassAd()
        for _ in range(self.rng.choice((0, 1, 3, 10, 30))):
            try:
                ad[self.rng.choice(NAMES)] = self._ad_value(depth)
            except PoolError:
                continue
        return ad

    def _ad_value(self, depth: int) -> Any:
        match self.rng.randrange(8):
            case 0 | 1:
                return self.rng.choice(NUMBERS)
            case 2:
                return self.rng.choice(TEXTS)
            case 3 | 4:
                return expr(self.rng.choice(EXPRESSIONS))
            case 5:
                return self.rng.choice((UNDEFINED, ERROR, True, AbsTime(2**40, 7), RelTime(-1e300)))
            case 6 if depth < 3:
                return self.ad(depth + 1)
        return self.rng.choice(FLOATS)

    def _table(self) -> bytes:
        """Ads as columns (`protocol.wire.ad_table`), or nearly so."""
        rng = self.rng
        names = rng.sample(NAMES, rng.randrange(4))
        rows = rng.choice((1, 1, 2, 10))
        table: object = {
            "names": names,
            "columns": [[rng.choice((None, *TEXTS, *NUMBERS)) for _ in range(rows)] for _ in names],
            "rows": rows,
            "shared": {rng.choice(NAMES): self._ad_value(2) for _ in range(rng.randrange(3))},
        }
        if rng.random() < 0.3:
            table = self._mutated(table)
        try:
            return codec.pack(table)
        except (PoolError, ValueError, TypeError, OverflowError):
            return b""

    def _scalar(self) -> object:
        return self.rng.choice((None, True, *NUMBERS, *FLOATS, *TEXTS, b"bytes", [], {}, [[]] * 50, self.ad(3)))

    def _mutated(self, value: object) -> object:
        """The value with something else in one place."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.8:
            key = rng.choice(list(value))
            return {**value, key: self._mutated(value[key])}
        if isinstance(value, list) and value and rng.random() < 0.8:
            at = rng.randrange(len(value))
            return [*value[:at], self._mutated(value[at]), *value[at + 1 :]]
        return self._scalar()

    def frame(self) -> bytes:
        """A frame that is nearly one."""
        rng = self.rng
        cls, body = self.message()
        parts: list[object] = [rng.choice(range(-1, 22)), rng.choice(NUMBERS), cls.tag, body, rng.choice(NUMBERS)][
            : rng.randrange(1, 6)
        ]
        try:
            payload = bytearray(codec.pack(parts))
        except (PoolError, ValueError, TypeError, OverflowError):
            payload = bytearray(b"\xc1")
        for _ in range(rng.choice((0, 1, 3, 20))):
            payload[rng.randrange(len(payload))] = rng.randrange(256)
        match rng.randrange(6):
            case 0:
                payload = payload[: rng.randrange(len(payload))]
            case 1:
                payload = bytearray([BULK_MARK]) + payload
            case 2:
                payload = bytearray(b"\x91" * rng.choice((10, 1000, 20_000)))  # lists in lists
            case 3:
                payload = bytearray(b"\xdd\xff\xff\xff\xff")  # a list that promises four thousand million
        return frame(bytes(payload)) if payload else b"\0\0\0\0"


def _is_ours(cls: type[Message]) -> bool:
    return cls.__module__.startswith("protocol.messages.") and cls.__name__ not in LETHAL


class Attacker:
    """Sends them, and counts what comes back."""

    def __init__(self, address: str, security: Security, mutants: Mutants) -> None:
        self.address, self.security, self.mutants = Address.parse(address), security, mutants
        self.codes: Counter[str] = Counter()
        self.internal: Counter[str] = Counter()
        self.disconnected = 0
        self._asked: dict[int, str] = {}

    def messages(self, count: int) -> None:
        """So many messages, on as many connections as it takes."""
        while count > 0:
            try:
                with blocking.connect(self.address, self.security) as peer:
                    while count > 0:
                        count -= BATCH
                        self._batch(peer)
            except PoolError:
                self.disconnected += 1

    def _batch(self, peer: blocking.BlockingPeer) -> None:
        connection = peer._connection
        for _ in range(BATCH):
            cls, body = self.mutants.message()
            try:
                if issubclass(cls, StreamRequest):
                    number = connection.stream(cls.tag, body, 1)
                elif self.mutants.rng.random() < 0.1:
                    connection.notify(cls.tag, body)
                    continue
                else:
                    number = connection.call(cls.tag, body)
            except (PoolError, ValueError, TypeError, OverflowError):  # what cannot even be packed
                continue
            self._asked[number] = cls.__name__
        number = connection.call(Ping.tag, encode(Ping()))
        peer._flush()
        deadline = time.monotonic() + ANSWER_S
        while number not in peer._answers:
            peer._receive(deadline)
        self._count(peer)
        for asked in list(self._asked):  # what waits, such as for changes, waits no more
            connection.cancel(asked)
        self._asked.clear()
        peer._flush()

    def _count(self, peer: blocking.BlockingPeer) -> None:
        for number, event in list(peer._answers.items()):
            code = getattr(event, "code", "ok")
            self.codes[code] += 1
            if code == "internal":
                self.internal[self._asked.get(number, "?")] += 1
        peer._answers.clear()

    def frames(self, count: int) -> None:
        """So many frames, each on a connection that has authenticated, until that is cut."""
        for _ in range(count):
            try:
                with blocking.connect(self.address, self.security) as peer:
                    peer._socket.settimeout(0.1)
                    peer._socket.sendall(b"".join(self.mutants.frame() for _ in range(3)))
                    peer._socket.recv(65536)
            except (PoolError, OSError):
                self.disconnected += 1

    def strangers(self, count: int) -> None:
        """So many first words of somebody who does not authenticate."""
        for _ in range(count):
            try:
                with self._raw() as sock:
                    sock.settimeout(0.1)
                    first = self.mutants.frame()
                    if self.mutants.rng.random() < 0.5:
                        said = {
                            "versions": self.mutants._scalar(),
                            "wanted": self.mutants.rng.choice(TEXTS),
                            "watches": 1,
                        }
                        first = (
                            frame(
                                msgpack.packb([EnvelopeKind.HELLO, said], unicode_errors="surrogateescape", default=str)
                            )
                            + first
                        )
                    sock.sendall(first)
                    sock.recv(65536)
            except (OSError, ValueError, TypeError, OverflowError):
                self.disconnected += 1

    def _raw(self) -> socket.socket:
        if not self.address.is_unix:
            return socket.create_connection((self.address.host, self.address.port), timeout=2.0)
        sock = socket.socket(socket.AF_UNIX)
        with unix_socket.reachable(self.address.path) as path:
            sock.connect(path)
        return sock


def main(daemon: str, address: str, directory: str, seed: str, count: str, how: str = "messages frames") -> None:
    """Attack, and print what happened."""
    keys = f"{directory}/keys"
    security = (
        Security()
        if directory == "-"
        else Security(SecuritySettings(keys=keys, ca_files=(f"{keys}/ca.pem",), offer=("SSL",)))
    )
    attacker = Attacker(address, security, Mutants(int(seed), daemon))
    actions: dict[str, Callable[[int], None]] = {
        "messages": attacker.messages,
        "frames": attacker.frames,
        "strangers": attacker.strangers,
    }
    for word in how.split():
        actions[word](int(count) if word == "messages" else int(count) // 4)
    print(json.dumps({"codes": attacker.codes, "internal": attacker.internal, "disconnected": attacker.disconnected}))


if __name__ == "__main__":
    main(*sys.argv[1:])
