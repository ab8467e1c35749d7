"""The transform language: SET, DEFAULT, EVALSET, EVALMACRO, COPY, RENAME and DELETE on one ad, with macros and `if`.

    transform = read_transform("AddTag", "REQUIREMENTS Owner == \"ann\"\nSET Tag \"of $(MY.Owner)\"")
    if transform.matches(ad):
        names = transform.apply(ad, knob=config.raw)

Lines take effect from top to bottom. `$(MY.Attr)` is the ad's attribute at that moment: a text without its quotes, the
text of anything else. The older form, an ad with `set_X`, `copy_X`, `delete_X`, `default_X` and `eval_set_X`, is read
as the lines that it means. What one line does wrong is told to `complain`, and the others go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pool.classad import ClassAd, Error, Expr, expr, parse_ad
from pool.classad.ad import text_of
from pool.classad.budget import TooDear
from pool.errors import ClassAdError, PoolError, Span, UserError
from pool.macros.conditions import BadCondition, Conditions, judge
from pool.macros.expand import Expander, Reference
from pool.macros.lines import logical_lines

_TWO: Final = frozenset({"SET", "DEFAULT", "EVALSET", "EVALMACRO", "COPY", "RENAME"})
_ONE: Final = frozenset({"DELETE"})
_ENVELOPE: Final = frozenset({"NAME", "UNIVERSE", "REQUIREMENTS", "TRANSFORM"})
_IF: Final = frozenset({"if", "elif", "else", "endif"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][\w.]*)\s*=(?!=)\s*(.*)\Z", re.DOTALL)
_WORDS = re.compile(r"(\S+)\s*(.*)\Z", re.DOTALL)
_REGEX = re.compile(r"/((?:[^/\\]|\\.)*)/([a-zA-Z]*)\s*(.*)\Z", re.DOTALL)
_GROUP = re.compile(r"\\(\d)")
_OLD: Final = (("copy_", "COPY"), ("delete_", "DELETE"), ("set_", "SET"), ("default_", "DEFAULT"))

Knob = Callable[[str], "str | None"]
Complain = Callable[[str], None]


@dataclass(frozen=True)
class Transform:
    """A transform as it was read: its numbered lines, and which ads it is for."""

    name: str
    lines: tuple[tuple[int, str], ...]
    requirements: Expr | None = None
    universe: str = ""

    def matches(self, ad: ClassAd) -> bool:
        """Whether the ad is to be transformed."""
        if self.requirements is None:
            return True
        value = self.requirements.eval(ad)
        return isinstance(value, bool | int | float) and bool(value)

    def apply(self, ad: ClassAd, *, knob: Knob = lambda name: None, complain: Complain = lambda said: None) -> set[str]:
        """Transform the ad; the names, in lower case, of the attributes that were set or taken away.

        UserError where a line cannot be judged at all (an `if` that asks nothing); the ad is then as it was before it.
        """
        return _Run(self, ad, knob, complain).run()


def read_transform(name: str, text: str) -> Transform:
    """Read a transform; UserError with the line of what is no transform."""
    if text.lstrip().startswith("["):
        text = _from_old_form(name, text)
    lines: list[tuple[int, str]] = []
    requirements, universe = None, ""
    for number, line in logical_lines(text):
        first, rest = _split(line)
        keyword = first.upper()
        if first.lower() in _IF or (_ASSIGNMENT.match(line) and not _is_command(keyword, rest)):
            lines.append((number, line))
        elif keyword == "REQUIREMENTS":
            requirements = _requirement(name, number, line, rest)
        elif keyword == "NAME":
            name = rest or name
        elif keyword == "UNIVERSE":
            universe = rest
        elif keyword in _TWO | _ONE:
            _check(name, number, line, keyword, rest)
            lines.append((number, line))
        elif keyword != "TRANSFORM":
            raise UserError(f"{first} is not a valid transform keyword", span=Span(name, number, 1, line))
    return Transform(name, tuple(lines), requirements, universe)


def _split(line: str) -> tuple[str, str]:
    found = _WORDS.match(line)
    return (found[1], found[2]) if found else (line, "")


def _is_command(keyword: str, rest: str) -> bool:
    return keyword in _TWO | _ONE | _ENVELOPE and not rest.startswith("=")


def _requirement(name: str, number: int, line: str, text: str) -> Expr:
    try:
        return expr(text, old=True)
    except ClassAdError as why:
        raise UserError(
            f"the requirements are no expression: {why.message}", span=Span(name, number, 1, line)
        ) from None


def _check(name: str, number: int, line: str, keyword: str, rest: str) -> None:
    """Commands that could never do anything are errors of the configuration."""
    attribute, pattern, value = _target(rest)
    missing = (not attribute and pattern is None) or (keyword in _TWO and not value)
    if missing:
        needs = "2 arguments" if keyword in _TWO else "an attribute"
        raise UserError(f"{keyword} needs {needs}", span=Span(name, number, 1, line))
    if pattern is not None and keyword not in ("COPY", "RENAME", "DELETE"):
        raise UserError(f"{keyword} takes no regular expression", span=Span(name, number, 1, line))


def _target(rest: str) -> tuple[str, re.Pattern[str] | None, str]:
    """What follows a command: an attribute or a pattern, and the rest of the line."""
    found = _REGEX.match(rest)
    if found is not None:
        try:
            return "", re.compile(found[1], re.IGNORECASE), found[3]
        except re.error:
            return "", None, ""
    attribute, value = _split(rest)
    if attribute[-1:] in (",", "="):
        attribute = attribute[:-1]
    if value[:1] in ("=", ",") and value[1:2] in ("", " ", "\t"):
        value = value[1:].lstrip()
    return attribute, None, value


def _from_old_form(name: str, text: str) -> str:
    """The lines that an older transform means; its kinds of change are made in a fixed order."""
    try:
        ad = parse_ad(text)
    except ClassAdError as why:
        raise UserError(f"the transform {name} is no ad: {why.message}") from None
    lines = [f"REQUIREMENTS {ad.text('Requirements')}"] if "Requirements" in ad else []
    for prefix, command in (*_OLD, ("eval_set_", "EVALSET")):
        for attribute in ad:
            if not attribute.lower().startswith(prefix):
                continue
            target = attribute[len(prefix) :]
            if command == "DELETE":
                lines += [f"DELETE {target}"] if ad.eval_bool(attribute, False) else []
            elif command == "COPY":
                lines.append(f"COPY {target} {ad.eval_str(attribute, '')}")
            else:
                lines.append(f"{command} {target} {ad.text(attribute)}")
    return "\n".join(lines)


def _plain(value: object) -> str:
    """A value as a macro holds it: a text without quotes."""
    return value if isinstance(value, str) else text_of(value, old=True)


class _AdExpander(Expander):
    """Expands macros, where `MY.Attr` inside a function means the attribute's value."""

    __slots__ = ("run",)

    def __init__(self, run: _Run) -> None:
        super().__init__(run.lookup)
        self.run = run

    def value_of(self, one: Reference) -> str:
        name = one.name.partition(",")[0].strip()
        if one.function in ("INT", "REAL", "STRING", "EVAL") and name.lower().startswith("my."):
            one = Reference(one.start, one.end, one.function, "__value" + one.name[len(name) :], one.default)
            self.run.macros["__value"] = _plain(self.run.ad.eval(name[3:]))
        return super().value_of(one)


class _Run:
    """One transform of one ad."""

    def __init__(self, transform: Transform, ad: ClassAd, knob: Knob, complain: Complain) -> None:
        self.transform = transform
        self.ad = ad
        self.knob = knob
        self.complain = complain
        self.macros: dict[str, str] = {}
        self.touched: set[str] = set()
        self.expander = _AdExpander(self)

    def lookup(self, name: str) -> str | None:
        """A macro of the transform's, an attribute of the ad, or a knob."""
        key = name.lower()
        if key in self.macros:
            return self.macros[key]
        if key.startswith("my."):
            value = self.ad.get(key[3:])
            return None if value is None else value if isinstance(value, str) else self.ad.text(key[3:])
        return self.knob(name)

    def run(self) -> set[str]:
        conditions = Conditions()
        for number, line in self.transform.lines:
            try:
                if conditions.take(line, self._judge) or not conditions.active:
                    continue
                self._line(line)
            except BadCondition as why:
                raise UserError(str(why), span=Span(self.transform.name, number, 1, line)) from None
            except TooDear:
                raise
            except (PoolError, ValueError) as error:
                self.complain(f"transform {self.transform.name}, line {number}: {error}")
        return self.touched

    def _judge(self, condition: str) -> bool:
        return judge(condition, self.expander.expand, self.lookup, lambda category, name: False)

    def _line(self, line: str) -> None:
        keyword, rest = _split(line)
        command = keyword.upper()
        assigned = _ASSIGNMENT.match(line)
        if assigned is not None and not _is_command(command, rest):
            name = assigned[1].lower()
            self.macros[name] = self.expander.expand(assigned[2].strip())
            return
        attribute, pattern, text = _target(rest)
        value = self.expander.expand(text)
        if pattern is not None:
            self._each(command, pattern, value)
        elif command == "DELETE":
            self._delete(attribute)
        elif command in ("COPY", "RENAME"):
            self._move(command, attribute, value)
        elif command == "EVALMACRO":
            self.macros[attribute.lower()] = _plain(self._evaluated(value))
        elif command == "EVALSET":
            self._set(attribute, self._evaluated(value))
        elif command == "SET" or not self._is_there(attribute):
            self._set(attribute, expr(value, old=True))

    def _is_there(self, name: str) -> bool:
        return name in self.ad and self.ad.text(name).lower() != "undefined"

    def _evaluated(self, text: str) -> object:
        value = expr(text, old=True).eval(self.ad)
        if isinstance(value, Error):
            self.complain(f"transform {self.transform.name}: {text} is an error")
        return value

    def _set(self, name: str, value: object) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise UserError(f"{name} is no name of an attribute")
        self.ad[name] = value
        self.touched.add(name.lower())

    def _delete(self, name: str) -> None:
        if name in self.ad:
            del self.ad[name]
            self.touched.add(name.lower())

    def _move(self, command: str, name: str, to: str) -> None:
        if not self._is_there(name):
            return
        self._set(to.strip(), self.ad[name])
        if command == "RENAME" and to.strip().lower() != name.lower():
            self._delete(name)

    def _each(self, command: str, pattern: re.Pattern[str], to: str) -> None:
        """The command for every attribute whose name the pattern matches."""
        for name in list(self.ad):
            found = pattern.search(name)
            if found is None:
                continue
            if command == "DELETE":
                self._delete(name)
                continue
            groups = (name, *found.groups(""))
            new = _GROUP.sub(lambda one: groups[int(one[1])] if int(one[1]) < len(groups) else "", to)  # noqa: B023
            self._move(command, name, new)
