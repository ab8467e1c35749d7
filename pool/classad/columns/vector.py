"""A column of values: data of one type with masks for undefined and error, or plain Python values where types differ.

Operators on columns of numbers, booleans and strings are numpy's; every other pairing goes through the scalar operators
row by row, so that there is one place that knows what the language's types do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pool.classad.eval.budget import Uncounted
from pool.classad.eval.operators import QUICK_BINARY, UNARY, truth
from pool.classad.values.limits import LONG_STRING
from pool.classad.values.value import ERROR, PLAIN, UNDEFINED, Error, Undefined, fold

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = "npt.NDArray[np.bool_] | None"
#: One value for all rows, or a value for each.
Operand: TypeAlias = Any

BOOL, INT, REAL, TEXT, MIXED = "bool", "int", "real", "text", "mixed"
_KINDS: Final[dict[type, str]] = {bool: BOOL, int: INT, float: REAL, str: TEXT}
_DTYPES: Final[dict[str, Any]] = {BOOL: np.bool_, INT: np.int64, REAL: np.float64, TEXT: np.int32, MIXED: object}
_NUMBERS: Final = frozenset({BOOL, INT, REAL})
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {"+": np.add, "-": np.subtract, "*": np.multiply}


class NoColumn(Exception):
    """This cannot be said in columns; the caller evaluates row by row."""


class Vector:
    """Values of one kind. Booleans are False where a mask is set; other data is arbitrary there.

    Text is codes into `words`. A mixed vector holds Python values and has no masks.
    """

    __slots__ = ("data", "error", "kind", "undefined", "words")

    def __init__(
        self, kind: str, data: Array, undefined: Mask = None, error: Mask = None, words: Sequence[str] = ()
    ) -> None:
        self.kind, self.data, self.undefined, self.error, self.words = kind, data, undefined, error, words

    def __len__(self) -> int:
        return len(self.data)

    @property
    def size(self) -> int:
        """How many bytes its arrays take."""
        masks = (mask for mask in (self.undefined, self.error) if mask is not None)
        return self.data.nbytes + sum(mask.nbytes for mask in masks)

    def values(self) -> list[Any]:
        """The rows as Python values."""
        if self.kind is TEXT:
            words = self.words
            found: list[Any] = [words[code] for code in self.data.tolist()]
        else:
            found = self.data.tolist()
        for mask, value in ((self.undefined, UNDEFINED), (self.error, ERROR)):
            if mask is not None:
                for row in np.flatnonzero(mask).tolist():
                    found[row] = value
        return found

    def take(self, rows: Array) -> Vector:
        """Some of the rows."""
        return Vector(self.kind, self.data[rows], _taken(self.undefined, rows), _taken(self.error, rows), self.words)


def _taken(mask: Mask, rows: Array) -> Mask:
    return None if mask is None else mask[rows]


def either(a: Mask, b: Mask) -> Mask:
    """Where one of two masks is set."""
    if a is None:
        return b
    return a if b is None else a | b


def vector(values: list[Any]) -> Vector:
    """A column from Python values; NoColumn when there are lists or ads among them."""
    kinds = set(map(type, values))
    if not kinds <= PLAIN:
        raise NoColumn
    usual = kinds - {Undefined, Error}
    if len(usual) > 1 or not usual <= _KINDS.keys():
        data = np.empty(len(values), dtype=object)
        data[:] = values
        return Vector(MIXED, data)
    kind = _KINDS[usual.pop()] if usual else BOOL
    undefined = _where(values, UNDEFINED) if Undefined in kinds else None
    error = _where(values, ERROR) if Error in kinds else None
    if undefined is not None or error is not None:
        filler: Any = "" if kind is TEXT else 0
        values = [filler if type(value) in (Undefined, Error) else value for value in values]
    if kind is TEXT:
        codes: dict[str, int] = {}
        data = np.fromiter((codes.setdefault(value, len(codes)) for value in values), np.int32, len(values))
        return Vector(TEXT, data, undefined, error, list(codes))
    return Vector(kind, np.array(values, dtype=_DTYPES[kind]), undefined, error)


def _where(values: list[Any], what: object) -> npt.NDArray[np.bool_]:
    return np.fromiter((value is what for value in values), np.bool_, len(values))


def full(value: Any, size: int) -> Vector:
    """The same value in every row."""
    if value is UNDEFINED or value is ERROR:
        mask = np.ones(size, np.bool_)
        return Vector(BOOL, np.zeros(size, np.bool_), *((mask, None) if value is UNDEFINED else (None, mask)))
    kind = _KINDS.get(type(value), MIXED)
    if kind is TEXT:
        return Vector(TEXT, np.zeros(size, np.int32), words=[value])
    data = np.empty(size, dtype=_DTYPES[kind])
    data[:] = value
    return Vector(kind, data)


def listed(operand: Operand, size: int) -> list[Any]:
    """The rows of an operand as Python values."""
    return operand.values() if type(operand) is Vector else [operand] * size


def by_rows(compute: Callable[..., Any], *operands: Operand) -> Operand:
    """`compute` for each row, with Python values; once per word when there is one column and it is text."""
    vectors = [operand for operand in operands if type(operand) is Vector]
    if not vectors:
        return compute(*operands)
    if len(vectors) == 1 and vectors[0].kind is TEXT:
        return _by_words(compute, vectors[0], operands)
    size = len(vectors[0])
    return vector([compute(*row) for row in zip(*(listed(one, size) for one in operands), strict=True)])


def _by_words(compute: Callable[..., Any], text: Vector, operands: Sequence[Operand]) -> Vector:
    results = [compute(*(word if one is text else one for one in operands)) for word in text.words]
    results += [compute(*(odd if one is text else one for one in operands)) for odd in (UNDEFINED, ERROR)]
    codes = text.data
    if text.undefined is not None:
        codes = np.where(text.undefined, len(results) - 2, codes)
    if text.error is not None:
        codes = np.where(text.error, len(results) - 1, codes)
    return vector(results).take(codes)


def logical(operand: Operand) -> Operand:
    """What an operand is to the logical operators: booleans with masks."""
    if type(operand) is not Vector:
        return truth(operand)
    kind = operand.kind
    if kind is BOOL:
        return operand
    if kind is INT or kind is REAL:
        return _settled(operand.data != 0, operand.undefined, operand.error)
    return by_rows(truth, operand)


def _settled(data: Array, undefined: Mask, error: Mask) -> Vector:
    """A vector of booleans that are False where a mask is set."""
    masked = either(undefined, error)
    if masked is not None:
        data = data & ~masked
    return Vector(BOOL, data, undefined, error)


def conjunction(left: Operand, right: Operand) -> Operand:
    """`left && right`, both logical: decided from the left where it can be."""
    if type(left) is not Vector:
        if left is False or left is ERROR or type(right) is not Vector:
            return left if left is False or left is ERROR else _and(left, right)
        if left is True:
            return right
        left = full(left, len(right))
    elif type(right) is not Vector:
        if right is True:
            return left
        right = full(right, len(left))
    data = left.data & right.data
    error, undefined = left.error, None
    maybe = left.data if left.undefined is None else left.data | left.undefined
    if right.error is not None:
        error = either(error, right.error & maybe)
    if left.undefined is not None or right.undefined is not None:
        undefined = maybe & (right.data if right.undefined is None else right.data | right.undefined) & ~data
    return Vector(BOOL, data, undefined, error)


def _and(left: Any, right: Any) -> Any:
    return right if left is True or right is not True else UNDEFINED


def disjunction(left: Operand, right: Operand) -> Operand:
    """`left || right`, both logical: decided from the left where it can be."""
    if type(left) is not Vector:
        if left is True or left is ERROR:
            return left
        if type(right) is not Vector:
            return right if left is False or right is not False else UNDEFINED
        if left is False:
            return right
        left = full(left, len(right))
    elif type(right) is not Vector:
        if right is False:
            return left
        right = full(right, len(left))
    theirs = right.data if left.error is None else right.data & ~left.error
    data = left.data | theirs
    error, undefined = left.error, None
    if right.error is not None:
        error = either(error, right.error & ~left.data)
    if (unsure := either(left.undefined, right.undefined)) is not None:
        undefined = unsure & ~data
        if error is not None:
            undefined &= ~error
    return Vector(BOOL, data, undefined, error)


def negation(operand: Operand) -> Operand:
    """`!operand`, which is logical."""
    if type(operand) is not Vector:
        return (not operand) if type(operand) is bool else operand
    return _settled(~operand.data, operand.undefined, operand.error)


def choose(test: Array, yes: Operand, no: Operand) -> Vector:
    """`yes` where `test` is set, else `no`."""
    size = len(test)
    a = yes if type(yes) is Vector else full(yes, size)
    b = no if type(no) is Vector else full(no, size)
    if a.kind is not b.kind and a.kind is BOOL and _unsaid(a):
        a = Vector(b.kind, np.zeros(size, b.data.dtype), a.undefined, a.error, b.words)
    elif a.kind is not b.kind and b.kind is BOOL and _unsaid(b):
        b = Vector(a.kind, np.zeros(size, a.data.dtype), b.undefined, b.error, a.words)
    if a.kind is b.kind and (a.kind in _NUMBERS or (a.kind is TEXT and a.words == b.words)):
        undefined, error = _chosen(test, a.undefined, b.undefined), _chosen(test, a.error, b.error)
        return Vector(a.kind, np.where(test, a.data, b.data), undefined, error, a.words)
    return vector([x if t else y for t, x, y in zip(test.tolist(), a.values(), b.values(), strict=True)])


def _unsaid(operand: Vector) -> bool:
    """Whether no row has a value."""
    masked = either(operand.undefined, operand.error)
    return masked is not None and bool(masked.all())


def _chosen(test: Array, a: Mask, b: Mask) -> Mask:
    if a is None and b is None:
        return None
    return np.where(test, False if a is None else a, False if b is None else b)


def ternary(test: Operand, yes: Operand, no: Operand) -> Operand:
    """`test ? yes : no`, where the test is logical and a column."""
    chosen = choose(test.data, yes, no)
    for mask, value in ((test.undefined, UNDEFINED), (test.error, ERROR)):
        if mask is not None:
            chosen = choose(mask, value, chosen)
    return chosen


def default(left: Operand, right: Callable[[], Operand]) -> Operand:
    """`left ?: right`."""
    if type(left) is not Vector:
        return right() if left is UNDEFINED else left
    if left.kind is MIXED:
        mask = np.fromiter((value is UNDEFINED for value in left.data), np.bool_, len(left))
        return choose(mask, right(), left) if mask.any() else left
    return left if left.undefined is None else choose(left.undefined, right(), left)


def unary(op: str, operand: Operand) -> Operand:
    """An operator of one operand."""
    if op == "!":
        return negation(logical(operand))
    if type(operand) is Vector and operand.kind in (INT, REAL) and op in "+-":
        data = operand.data if op == "+" else -operand.data
        return Vector(operand.kind, data, operand.undefined, operand.error)
    return by_rows(UNARY[op], operand)


def binary(op: str, left: Operand, right: Operand) -> Operand:
    """Any strict operator of two operands."""
    if type(left) is not Vector and type(right) is not Vector:
        return QUICK_BINARY[op](left, right)
    a, b = _kind(left), _kind(right)
    found: Vector | None = None
    if op in _COMPARE:
        if a in _NUMBERS and b in _NUMBERS:
            found = _compare(op, left, right, REAL if a is not b and REAL in (a, b) else a if a is b else INT)
        elif a is TEXT and b is TEXT and op in ("==", "!=") and type(left) is not type(right):
            found = _equal_text(op, left, right)
    elif op in _ARITHMETIC:
        if a in _NUMBERS and b in _NUMBERS:
            found = _compute(op, left, right, REAL if REAL in (a, b) else INT)
    elif op in ("=?=", "=!="):
        found = _identical(left, right)
        if found is not None and op == "=!=":
            found = negation(found)
    return by_rows(QUICK_BINARY[op], left, right) if found is None else found


def _kind(operand: Operand) -> str:
    return operand.kind if type(operand) is Vector else _KINDS.get(type(operand), MIXED)


def _data(operand: Operand, kind: str) -> Any:
    if type(operand) is not Vector:
        return _DTYPES[kind](operand)
    return operand.data if operand.kind is kind else operand.data.astype(_DTYPES[kind])


def _masks(left: Operand, right: Operand) -> tuple[Mask, Mask]:
    """Where a strict operator is undefined or an error because an operand is."""
    if type(left) is not Vector:
        return right.undefined, right.error
    if type(right) is not Vector:
        return left.undefined, left.error
    error = either(left.error, right.error)
    undefined = either(left.undefined, right.undefined)
    if error is not None and undefined is not None:
        undefined = undefined & ~error
    return undefined, error


def _compare(op: str, left: Operand, right: Operand, kind: str) -> Vector:
    return _settled(_COMPARE[op](_data(left, kind), _data(right, kind)), *_masks(left, right))


def _compute(op: str, left: Operand, right: Operand, kind: str) -> Vector:
    with np.errstate(all="ignore"):
        data = _ARITHMETIC[op](_data(left, kind), _data(right, kind))
    undefined, error = _masks(left, right)
    if kind is REAL:
        infinite = np.isposinf(data)
        if infinite.any():
            masked = either(undefined, error)
            error = either(error, infinite if masked is None else infinite & ~masked)
    return Vector(kind, data, undefined, error)


def _equal_text(op: str, left: Operand, right: Operand) -> Vector:
    """A column of text against one text, letter case ignored."""
    column, word = (left, right) if type(left) is Vector else (right, left)
    if len(word) > LONG_STRING:
        raise Uncounted
    folded = fold(word)
    codes = [code for code, known in enumerate(column.words) if fold(known) == folded]
    data = _among(column.data, codes)
    return _settled(data if op == "==" else ~data, column.undefined, column.error)


def _among(data: Array, codes: list[int]) -> Array:
    if not codes:
        return np.zeros(len(data), np.bool_)
    found: Array = data == codes[0]
    for code in codes[1:]:
        found |= data == code
    return found


def _identical(left: Operand, right: Operand) -> Vector | None:
    """A column against one value, or two columns of the same kind of number; None for anything else."""
    if type(left) is Vector and type(right) is Vector:
        if left.kind is not right.kind or left.kind not in _NUMBERS or any(map(_masked, (left, right))):
            return None
        return Vector(BOOL, left.data == right.data)
    column, value = (left, right) if type(left) is Vector else (right, left)
    if column.kind is MIXED:
        return None
    nothing = np.zeros(len(column), np.bool_)
    if value is UNDEFINED or value is ERROR:
        mask = column.undefined if value is UNDEFINED else column.error
        return Vector(BOOL, nothing if mask is None else mask)
    if _KINDS.get(type(value), MIXED) is not column.kind:
        return Vector(BOOL, nothing)
    if column.kind is TEXT:
        data = _among(column.data, [code for code, known in enumerate(column.words) if known == value])
    else:
        data = column.data == value
    masked = either(column.undefined, column.error)
    return Vector(BOOL, data if masked is None else data & ~masked)


def _masked(operand: Vector) -> bool:
    return operand.undefined is not None or operand.error is not None
