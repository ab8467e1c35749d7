"""`NamedTuple` as `typing` has it, for a tenth of the price: classes that tools declare and do not use cost little.

That of `typing` compiles a constructor, and the type of each field, when the class is declared. Here the constructor is
compiled when the first value is made, and then is the same.
Take it from `pool.hints`, which shows type checkers that of `typing`.
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]  # as `collections` does, which costs a tool 1 ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_make_tuple = tuple.__new__
_late: list[type] = []
"""The classes whose constructor has not been compiled."""


def _first_new(cls: type, /, *values: object, **named: object) -> Any:
    """The constructor until the first call of it."""
    owner = next(base for base in cls.__mro__ if "_fields" in vars(base))
    _compile(owner)
    return owner.__new__(cls, *values, **named)


def _compile(cls: Any) -> None:
    names = "".join(f"{field}, " for field in cls._fields)
    new = eval(f"lambda _cls, {names}: make(_cls, ({names}))", {"make": _make_tuple})
    new.__name__ = "__new__"
    new.__defaults__ = tuple(cls._field_defaults.values()) or None
    new.__qualname__ = f"{cls.__qualname__}.__new__"
    new.__module__ = cls.__module__
    cls.__new__ = new


def compile_all() -> None:
    """Compile the constructors of all classes, for a process whose children will use them."""
    while _late:
        _compile(_late.pop())


def _make(cls: Any, values: Iterable[object]) -> Any:
    made = _make_tuple(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **changes: object) -> Any:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"Got unexpected field names: {list(changes)!r}")
    return made


def _asdict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{type(self).__name__}({fields})"


def _newargs(self: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(self)


_METHODS = {
    "_make": classmethod(_make),
    "_replace": _replace,
    "_asdict": _asdict,
    "__repr__": _repr,
    "__getnewargs__": _newargs,
}


class _Maker(type):
    """Makes a class of named tuples of the body of a class."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = tuple(body.get("__annotations__", ()))
        defaults = {field: body[field] for field in fields if field in body}
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"{name}: a field without default follows one with a default")
        if wrong := [field for field in fields if field.startswith("_")]:
            raise TypeError(f"{name}: the name of a field begins with an underscore: {', '.join(wrong)}")
        getters = {field: _tuplegetter(at, None) for at, field in enumerate(fields)}
        made = type(
            name,
            tuple(tuple if base is _NamedTuple else base for base in bases),
            {"__slots__": (), "__new__": _first_new, **_METHODS, **body, **getters}
            | {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields},
        )
        _late.append(made)
        return made


_NamedTuple = _Maker("_NamedTuple", (), {})


class _Base:
    """What `class X(NamedTuple)` names; it leads to the maker of such classes, and is no base of them."""

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (_NamedTuple,)


NamedTuple = _Base()
