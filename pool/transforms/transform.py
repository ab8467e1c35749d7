"""The transform language: SET, DEFAULT, EVALSET, EVALMACRO, COPY, RENAME and DELETE on one ad, with macros and `if`.

    transform = read_transform("AddTag", "REQUIREMENTS Owner == \"ann\"\nSET Tag \"of $(MY.Owner)\"")
    if transform.matches(ad):
        names = transform.apply(ad, knob=config.raw)

Lines (`statements`) take effect from top to bottom. `$(MY.Attr)` is the ad's attribute at that moment: a text without
its quotes, the text of anything else. What one line does wrong is told to `complain`, and the others go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pool.base.errors import PoolError, UserError
from pool.classad import ClassAd, Error, expr
from pool.classad.eval.ad import text_of
from pool.classad.eval.budget import TooDear
from pool.classad.values.truth import is_true
from pool.macros.conditions import BadCondition, Conditions, judge
from pool.macros.expand import Expander, Reference
from pool.macros.lines import argument_at
from pool.transforms.statements import Assignment, AttributeChange, Condition, Keyword, TransformText, read_statements

_GROUP: Final = re.compile(r"\\(\d)")

Knob = Callable[[str], "str | None"]
Complain = Callable[[str], None]


@dataclass(frozen=True)
class Transform(TransformText):
    """A transform as it was read, and which ads it is for."""

    def matches(self, ad: ClassAd) -> bool:
        """Whether the ad is to be transformed."""
        if self.requirements is None:
            return True
        # Undefined is not true: a transform for owners leaves jobs without an owner alone.
        value = self.requirements.eval(ad)
        return is_true(value)

    def apply(self, ad: ClassAd, *, knob: Knob = lambda name: None, complain: Complain = lambda said: None) -> set[str]:
        """Transform the ad; the names, in lower case, of the attributes that were set or taken away.

        UserError where a line cannot be judged at all (an `if` that asks nothing); the ad is then as it was before it.
        """
        return _Run(self, ad, knob, complain).run()


def read_transform(name: str, text: str) -> Transform:
    """Read a transform; UserError with the place of what is no transform."""
    read = read_statements(name, text)
    return Transform(read.name, read.statements, read.requirements, read.universe)


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
        # A format may follow behind a comma: `$INT(MY.Memory,%05d)`.
        name = one.name.partition(",")[0].strip()
        if one.function in ("INT", "REAL", "STRING", "EVAL") and name.lower().startswith("my."):
            one = Reference(one.start, one.end, one.function, "__value" + one.name[len(name) :], one.default)
            # Through a macro: a function takes a name or a text, and an expression's text would be evaluated outside
            # the ad.
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
        # The transform's own come before knobs of the same name, whose values are the site's.
        if key in self.macros:
            return self.macros[key]
        if key.startswith("my."):
            value = self.ad.get(key[3:])
            return None if value is None else value if isinstance(value, str) else self.ad.text(key[3:])
        return self.knob(name)

    def run(self) -> set[str]:
        conditions = Conditions()
        for one in self.transform.statements:
            try:
                if isinstance(one, Condition):
                    conditions.take(one.line, self._judge)
                elif conditions.active:
                    self._do(one)
            except BadCondition as why:
                raise UserError(str(why), span=one.line.span(self.transform.name, argument_at(one.line))) from None
            # Not one line's fault: what is used up is not there for the next line either.
            except TooDear:
                raise
            except (PoolError, ValueError) as error:
                self.complain(f"transform {self.transform.name}, line {one.number}: {error}")
        return self.touched

    def _judge(self, condition: str) -> bool:
        # There are no templates in a transform to be asked for.
        return judge(condition, self.expander.expand, self.lookup, lambda category, name: False)

    def _do(self, one: Assignment | AttributeChange) -> None:
        value = self.expander.expand(one.text)
        if isinstance(one, Assignment):
            self.macros[one.name] = value
        elif one.pattern is not None:
            self._each(one.command, one.pattern, value)
        else:
            self._change(one.command, one.attribute, value)

    def _change(self, command: Keyword, attribute: str, value: str) -> None:
        match command:
            case Keyword.DELETE:
                self._delete(attribute)
            case Keyword.COPY | Keyword.RENAME:
                self._move(command, attribute, value)
            case Keyword.EVALMACRO:
                self.macros[attribute.lower()] = _plain(self._evaluated(value))
            case Keyword.EVALSET:
                self._set(attribute, self._evaluated(value))
            case Keyword.SET | Keyword.DEFAULT:
                if command is Keyword.SET or not self._is_there(attribute):
                    self._set(attribute, expr(value, old=True))

    def _is_there(self, name: str) -> bool:
        # An attribute may be covered by `undefined`, which says that the cluster's does not count here.
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

    def _move(self, command: Keyword, name: str, to: str) -> None:
        if not self._is_there(name):
            return
        self._set(to.strip(), self.ad[name])
        # To another case of itself a name changes its spelling only, and must not be deleted.
        if command is Keyword.RENAME and to.strip().lower() != name.lower():
            self._delete(name)

    def _each(self, command: Keyword, pattern: re.Pattern[str], to: str) -> None:
        """The command for every attribute whose name the pattern matches."""
        # A copy: what the command makes of an attribute is not looked at again, or `COPY /^A/ AA` would never end.
        for name in list(self.ad):
            found = pattern.search(name)
            if found is None:
                continue
            if command is Keyword.DELETE:
                self._delete(name)
                continue
            groups = (name, *found.groups(""))
            new = _GROUP.sub(lambda one: groups[int(one[1])] if int(one[1]) < len(groups) else "", to)  # noqa: B023
            self._move(command, name, new)
