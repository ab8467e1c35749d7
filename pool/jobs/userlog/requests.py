"""Event logs for other programs: one request, a JSON object, in; one answer out. `pool eventlog --jsonl` is a loop
around this.

    {"id": 1, "op": "eventlog", "text": "000 (007.000.000) ..."}  ->  {"id": 1, "events": [{"type": 0, ...}]}

Times without a zone are taken as UTC, so that an answer depends on nothing but its question.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from io import StringIO
from typing import Any

from pool.base.dates import utc_seconds
from pool.base.errors import ClassAdError, UserError
from pool.classad import ClassAd
from pool.classad.forms.json_form import to_json
from pool.classad.forms.lists import read_ads
from pool.jobs.userlog.kinds import kind_of
from pool.jobs.userlog.reader import EventReader, LoggedEvent

Answer = dict[str, Any]


def answer_line(line: str, *, year: int) -> str:
    """The answer to one line of JSON, as one line of JSON. `year` is that of dates that have none."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        return json.dumps({"id": None, "error": f"this line is no JSON: {error}"})
    if not isinstance(request, dict):
        return json.dumps({"id": None, "error": "a request is a JSON object"})
    return json.dumps(answer(request, year=year))


def answer(request: dict[str, Any], *, year: int) -> Answer:
    """The answer to one request: the events, or an `error`."""
    about = {"id": request.get("id")}
    if request.get("op", "eventlog") != "eventlog":
        return about | {"error": f"there is no op {request.get('op')!r}; there is eventlog"}
    text = request.get("text")
    if not isinstance(text, str):
        return about | {"error": "this op needs 'text', a string"}
    try:
        return about | {"events": list(events_of(text, year=year, utc=True))}
    except ClassAdError as error:
        return about | {"error": error.message}


def events_of(text: str, *, year: int, utc: bool = False) -> Iterator[Answer]:
    """The complete events of a log, which may be text, XML or JSON."""
    begin = text.lstrip()[:1]
    if begin in ("<", "{"):
        for ad in read_ads(StringIO(text), form="xml" if begin == "<" else "json"):
            yield of_ad(ad, utc=utc)
        return
    for event in EventReader(year=year, utc=utc).feed(text):
        yield of_event(event, utc=utc)


def events_of_file(path: str) -> list[Answer]:
    """The complete events of a log, which may be empty; UserError when the file is no log."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        events = list(events_of(text, year=time.localtime().tm_year))
    except ClassAdError as error:
        raise UserError(f"{path} is not a job event log: {error.message}") from None
    if text.strip() and not any(event["type"] >= 0 for event in events):
        raise UserError(f"{path} is not a job event log: it holds no event")
    return events


def of_event(event: LoggedEvent, *, utc: bool = False) -> Answer:
    """One event of a text."""
    return {
        "type": event.number,
        "name": event.name,
        "cluster": event.job.cluster,
        "proc": event.job.proc,
        "subproc": event.subproc,
        "time": int(event.at),
        "attrs": _attributes(event.ad(utc=utc)),
    }


def of_ad(ad: ClassAd, *, utc: bool = False) -> Answer:
    """One event of a log in XML or JSON."""
    number = ad.eval_int("EventTypeNumber", -1)
    written = ad.eval_str("EventTime", "") or ""
    seconds = _seconds(written, utc=utc)
    attributes = _attributes(ad)
    if written.endswith("Z") and seconds:  # HTCondor's reader shows the time without a zone
        moment = time.gmtime(seconds) if utc else time.localtime(seconds)
        attributes["EventTime"] = time.strftime("%Y-%m-%dT%H:%M:%S", moment) + written[19:].removesuffix("Z")
    return {
        "type": number,
        "name": kind_of(number).name,
        "cluster": ad.eval_int("Cluster", -1),
        "proc": ad.eval_int("Proc", -1),
        "subproc": ad.eval_int("Subproc", 0),
        "time": seconds,
        "attrs": attributes,
    }


def _seconds(text: str, *, utc: bool) -> int:
    try:
        moment = time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return 0
    return utc_seconds(*moment[:6]) if utc or text.endswith("Z") else int(time.mktime(moment))


def _attributes(ad: ClassAd) -> dict[str, Any]:
    """Plain values as JSON has them; a nested ad as `{"text": its new form}`, an expression as JSON has expressions."""
    plain: Answer = {}
    for name in ad:
        value = ad[name]
        if isinstance(value, ClassAd):
            plain[name] = {"text": value.project(sorted(value, key=_as_htcondor_keeps_them)).new()}
        elif isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
            plain[name] = value
        else:
            plain[name] = json.loads(to_json(ad, [name]))[name]
    return plain


def _as_htcondor_keeps_them(name: str) -> tuple[int, str]:
    return len(name), name.lower()
