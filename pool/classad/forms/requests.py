"""The language for other programs: one request, a JSON object, in; one answer out. `pool classad --jsonl` is a loop
around this.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pool.base.errors import ClassAdError
from pool.classad.eval.ad import ClassAd, text_of
from pool.classad.eval.expression import expr
from pool.classad.eval.match import accepts, is_match, rank
from pool.classad.forms.new_form import parse_ad
from pool.classad.forms.old_form import parse_long
from pool.classad.values.value import AbsTime, Error, RelTime, Undefined, Value

Request = dict[str, Any]
Answer = dict[str, Any]

TYPES: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "real",
    str: "string",
    Undefined: "undefined",
    Error: "error",
    list: "list",
    ClassAd: "classad",
    AbsTime: "abstime",
    RelTime: "reltime",
}


def answer_line(line: str) -> str:
    """The answer to one line of JSON, as one line of JSON."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        return _line({"id": None, "error": f"this line is no JSON: {error}"})
    if not isinstance(request, dict):
        return _line({"id": None, "error": "a request is a JSON object"})
    return _line(answer(request))


def _line(answer: Answer) -> str:
    text = answer.pop("json_text", None)
    line = json.dumps(answer)
    # The ad's own JSON goes in as it is, so that its numbers keep their digits.
    return line if text is None else f'{line[:-1]}, "json": {text}}}'


def answer(request: Request) -> Answer:
    """The answer to one request; what cannot be answered has an `error`, with line and column where there is one."""
    about = {"id": request.get("id")}
    operation = _OPERATIONS.get(str(request.get("op")))
    if operation is None:
        return about | {"error": f"there is no op {request.get('op')!r}; there are {', '.join(_OPERATIONS)}"}
    try:
        return about | operation(request)
    except ClassAdError as error:
        place = {} if error.span is None else {"line": error.span.line, "column": error.span.column}
        wanted = {} if error.expected is None else {"expected": error.expected}
        return about | {"error": error.message} | place | wanted


def _text(request: Request, name: str) -> str:
    text = request.get(name)
    if not isinstance(text, str):
        raise ClassAdError(f"this op needs {name!r}, a string")
    return text


def _ad(request: Request, name: str) -> ClassAd | None:
    return None if request.get(name) is None else parse_ad(_text(request, name), file=name)


def _eval(request: Request) -> Answer:
    my, target = _ad(request, "my"), _ad(request, "target")
    return _printed(expr(_text(request, "expr")).eval_lazy(my, target))


def _printed(value: Value) -> Answer:
    return {"type": TYPES[type(value)], "result": text_of(value)}


def _parse_expr(request: Request) -> Answer:
    parsed = expr(_text(request, "text"))
    return {"new": parsed.text, "old": parsed.old_text}


def _parse_ad(request: Request) -> Answer:
    ad = parse_ad(_text(request, "text"))
    return {"new": ad.new(), "old": ad.long()}


def _parse_old(request: Request) -> Answer:
    ad = parse_long(_text(request, "text"))
    return {"new": ad.new(), "old": ad.long()}


def _to_json(request: Request) -> Answer:
    from pool.classad.forms.json_form import to_json

    return {"json_text": to_json(parse_ad(_text(request, "text")), compact=True)}


def _to_xml(request: Request) -> Answer:
    from pool.classad.forms.xml_form import to_xml

    return {"xml": to_xml(parse_ad(_text(request, "text")))}


def _match(request: Request) -> Answer:
    job, machine = parse_ad(_text(request, "job"), file="job"), parse_ad(_text(request, "machine"), file="machine")
    return {
        "job_accepts": accepts(job, machine),
        "machine_accepts": accepts(machine, job),
        "match": is_match(job, machine),
        "job_rank": _rank(job, machine),
        "machine_rank": _rank(machine, job),
    }


def _rank(ad: ClassAd, other: ClassAd) -> Answer:
    said: Answer = {"result": None, "type": "missing"}
    if "Rank" in ad:
        said = _printed(ad.eval_lazy("Rank", other))
    return said | {"value": rank(ad, other)}


_OPERATIONS: Final[dict[str, Callable[[Request], Answer]]] = {
    "eval": _eval,
    "parse_expr": _parse_expr,
    "parse_ad": _parse_ad,
    "parse_old": _parse_old,
    "to_json": _to_json,
    "to_xml": _to_xml,
    "match": _match,
}
