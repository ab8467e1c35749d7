"""`StrEnum` as `enum` has it, for messages that tools send: that module costs a third of an interpreter's start.

Members are texts, the only ones of their class; they are had by name, by value and one after another. Take it from
`pool.hints`, which shows type checkers that of `enum`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class _Maker(type):
    """Makes the members, and finds them."""

    __members__: dict[str, Any]
    _by_value: dict[str, Any]

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        values = {word: value for word, value in body.items() if word[0] != "_" and type(value) is str}
        made: Any = super().__new__(cls, name, bases, {word: body[word] for word in body if word not in values})
        made.__members__, made._by_value = {}, {}
        for word, value in values.items():
            member = str.__new__(made, value)
            member.__dict__.update(name=word, value=value)
            type.__setattr__(made, word, member)
            made.__members__[word] = made._by_value[value] = member
        return made

    def __call__(cls, value: str) -> Any:
        try:
            return cls._by_value[value]
        except (KeyError, TypeError):
            raise ValueError(f"{value!r} is not a valid {cls.__qualname__}") from None

    def __getitem__(cls, name: str) -> Any:
        return cls.__members__[name]

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls.__members__.values())

    def __len__(cls) -> int:
        return len(cls.__members__)

    def __contains__(cls, value: object) -> bool:
        return value in cls._by_value


class StrEnum(str, metaclass=_Maker):
    """Texts with names."""

    name: str
    value: str

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{self.name} cannot be changed")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.value,)

    def __deepcopy__(self, memo: object) -> StrEnum:
        return self

    __format__ = str.__format__
    __hash__ = str.__hash__
