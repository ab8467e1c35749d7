"""What kind of value is it: isUndefined() and its kin."""

from __future__ import annotations

from typing import Any

from pool.classad.eval.frame import BoundList, Frame
from pool.classad.eval.functions import register
from pool.classad.values.value import AbsTime, Error, RelTime, Undefined

_TYPES: dict[str, type] = {
    "isUndefined": Undefined,
    "isError": Error,
    "isString": str,
    "isInteger": int,
    "isReal": float,
    "isList": BoundList,
    "isClassAd": Frame,
    "isBoolean": bool,
    "isAbstime": AbsTime,
    "isReltime": RelTime,
}


def _enter(name: str, kind: type) -> None:
    def is_of_type(value: Any) -> bool:
        return type(value) is kind

    register(name, 1, 1, is_of_type)


for _name, _kind in _TYPES.items():
    _enter(_name, _kind)
