"""The forms that an event log may have: HTCondor's text with its ways to write times, XML, or JSON.

    form = read_form(["XML", "UTC"])
    write(event, JobId(7, 0), at, form)

An ad in XML or JSON has what a reader of the text form gets from it, so that both kinds of log say the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pool.base.ids import JobId
from pool.classad.forms.json_form import to_json
from pool.classad.forms.xml_form import to_xml
from pool.jobs.userlog.event import LogEvent, cluster_text, event_text
from pool.jobs.userlog.reader import EventReader, LoggedEvent


@dataclass(frozen=True)
class Form:
    """How a log is written."""

    xml: bool = False
    json: bool = False
    utc: bool = False
    sub_second: bool = False
    legacy: bool = False
    """Dates without a year, as before HTCondor 8.8."""


TEXT: Final = Form()


def read_form(options: Iterable[str], form: Form = TEXT) -> Form:
    """The form of a list such as DEFAULT_USERLOG_FORMAT_OPTIONS; `!` before an option takes it back."""
    for option in options:
        name, on = option.lstrip("!").upper(), not option.startswith("!")
        if name == "XML":
            form = replace(form, xml=on)
        elif name == "JSON":
            form = replace(form, json=on)
        elif name == "UTC":
            form = replace(form, utc=on)
        elif name == "SUB_SECOND":
            form = replace(form, sub_second=on)
        elif name == "ISO_DATE":
            form = replace(form, legacy=not on)
        elif name == "LEGACY":
            form = Form(xml=form.xml, json=form.json, legacy=True) if on else replace(form, legacy=False)
    return TEXT if form == TEXT else form


def write(event: LogEvent, job: JobId, at: float, form: Form = TEXT) -> str:
    """The whole event, ready to be appended to a log of this form."""
    text = event_text(event, job, at)
    return text if form is TEXT else formed(text, at, form)


def write_events(event: LogEvent, jobs: Sequence[JobId], at: float, form: Form = TEXT) -> str:
    """The same event of several jobs."""
    if form.xml or form.json or not jobs:
        return "".join([write(event, job, at, form) for job in jobs])
    first = write(event, jobs[0], at, form)
    said = f"({jobs[0].cluster:03d}.{jobs[0].proc:03d}.000)"
    before, _, after = first.partition(said)  # only the header's first words name the job
    return "".join([f"{before}({cluster:03d}.{proc:03d}.000){after}" for cluster, proc in jobs])


def write_cluster(event: LogEvent, cluster: int, at: float, form: Form = TEXT) -> str:
    """An event of a whole cluster."""
    text = cluster_text(event, cluster, at)
    return text if form is TEXT else formed(text, at, form)


def formed(text: str, at: float, form: Form) -> str:
    """An event's text, with its date written in full, in another form."""
    if form.xml or form.json:
        return "".join(_ad(replace(event, at=at if form.sub_second else int(at)), form) for event in _read(text))
    head, _, rest = text.partition(") ")
    return f"{head}) {_moment(at, form)}{rest[len('2026-11-20 23:51:08') :]}"


def _read(text: str) -> Iterable[LoggedEvent]:
    return EventReader().feed(text)


def _ad(event: LoggedEvent, form: Form) -> str:
    ad = event.ad(utc=form.utc)
    if form.utc:
        ad["EventTime"] = ad.eval_str("EventTime", "") + "Z"
    names = sorted(ad, key=str.lower)
    return (to_json(ad, names) if form.json else to_xml(ad, names)) + "\n"


def _moment(at: float, form: Form) -> str:
    moment = time.gmtime(at) if form.utc else time.localtime(at)
    shown = time.strftime("%m/%d %H:%M:%S" if form.legacy else "%Y-%m-%d %H:%M:%S", moment)
    if form.sub_second:
        shown += f".{int(at % 1 * 1000):03d}"
    return f"{shown}Z" if form.utc else shown
