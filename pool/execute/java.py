"""A Java job's program and words: the machine's Java, the class path, arguments for it, the main class, the job's own.

The first of the job's arguments is the main class. Its class file and its jar files lie where the job runs when files
are transferred, and where the user has them otherwise.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from pool.base.argv import split_new, split_old
from pool.base.errors import UserError
from pool.base.words import split_list
from pool.classad import ClassAd
from pool.jobs.vocabulary.universes import Universe

KNOBS: Final = (
    "JAVA",
    "JAVA_CLASSPATH_ARGUMENT",
    "JAVA_CLASSPATH_SEPARATOR",
    "JAVA_CLASSPATH_DEFAULT",
    "JAVA_EXTRA_ARGUMENTS",
)
_DEFAULTS: Final[Mapping[str, str]] = {
    "JAVA": "/usr/bin/java",
    "JAVA_CLASSPATH_ARGUMENT": "-classpath",
    "JAVA_CLASSPATH_SEPARATOR": ":",
    "JAVA_CLASSPATH_DEFAULT": ".",
}
PROBE: Final = ("-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XshowSettings:properties", "-version")
"""Arguments with which Java says what it is."""
_FACTS: Final[Mapping[str, str]] = {
    "java.vendor": "JavaVendor",
    "java.version": "JavaVersion",
    "java.specification.version": "JavaSpecificationVersion",
}


def is_java(job: ClassAd) -> bool:
    """Whether the job is of the java universe."""
    return job.eval_int("JobUniverse", Universe.VANILLA) == Universe.JAVA


def java_argv(job: ClassAd, arguments: Sequence[str], knobs: Mapping[str, str], *, transfers: bool) -> list[str]:
    """All words of the command; `arguments` are the job's own, `knobs` the machine's JAVA* knobs."""
    if not arguments:
        raise UserError("a java job has no arguments", expected="the name of its main class first")
    known = {**_DEFAULTS, **{name: value for name, value in knobs.items() if value}}
    path = split_list(known["JAVA_CLASSPATH_DEFAULT"])
    jars = [jar.strip() for jar in (job.eval_str("JarFiles") or "").split(",") if jar.strip()]
    path += [posixpath.basename(jar) if transfers else jar for jar in jars]
    words = [known["JAVA"]]
    if path:
        words += [known["JAVA_CLASSPATH_ARGUMENT"], known["JAVA_CLASSPATH_SEPARATOR"].join(path)]
    words += shlex.split(known.get("JAVA_EXTRA_ARGUMENTS", ""))
    new, old = job.eval_str("JavaVMArguments"), job.eval_str("JavaVMArgs")
    if new:
        words += split_new(new)
    elif old:
        words += split_old(old)
    return [*words, *arguments]


def java_facts(printed: str) -> dict[str, bool | str]:
    """What Java says of itself, as attributes of a machine; nothing when it says nothing of the kind."""
    facts: dict[str, bool | str] = {}
    for line in printed.splitlines():
        name, equals, value = (part.strip() for part in line.partition("="))
        if equals and name in _FACTS and value:
            facts[_FACTS[name]] = value
    return {"HasJava": True, **facts} if "JavaVersion" in facts else {}
