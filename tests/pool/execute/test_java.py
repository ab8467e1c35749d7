"""The words of a Java job's command, and what Java says of itself."""

from __future__ import annotations

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.execute.java import java_argv, java_facts
from pool.execute.plan import ExecuteSurroundings, plan_job

JOB = {"JobUniverse": 10, "Cmd": "java", "Args": "Hello one two"}
PRINTED = """Property settings:
    java.specification.version = 17
    java.vendor = Debian
    java.version = 17.0.15
openjdk version "17.0.15" 2025-04-15
"""


def argv(job: dict[str, object], *, transfers: bool = True, **knobs: str) -> list[str]:
    ad = ClassAd({**JOB, **job})
    return java_argv(ad, ad.eval_str("Args", "").split(), knobs, transfers=transfers)


def test_the_main_class_comes_first_and_then_the_jobs_own_arguments() -> None:
    assert argv({}) == ["/usr/bin/java", "-classpath", ".", "Hello", "one", "two"]


def test_jar_files_join_the_class_path() -> None:
    jars = {"JarFiles": "lib/a.jar, /x/b.jar"}
    assert argv(jars)[2] == ".:a.jar:b.jar"
    assert argv(jars, transfers=False)[2] == ".:lib/a.jar:/x/b.jar"


def test_arguments_for_java_itself_come_before_the_class() -> None:
    assert argv({"JavaVMArgs": "-Xmx64m -Da=b"})[3:6] == ["-Xmx64m", "-Da=b", "Hello"]
    assert argv({"JavaVMArgs": "-Da=b\u00a0c -Dd"})[3:5] == ["-Da=b\u00a0c", "-Dd"]
    assert argv({"JavaVMArguments": "-Da='b c'"})[3:5] == ["-Da=b c", "Hello"]


def test_the_machine_says_what_java_is() -> None:
    knobs = {
        "JAVA": "/opt/java",
        "JAVA_CLASSPATH_ARGUMENT": "-cp",
        "JAVA_CLASSPATH_SEPARATOR": ";",
        "JAVA_CLASSPATH_DEFAULT": "/lib .",
        "JAVA_EXTRA_ARGUMENTS": "-Xint '-Dx=a b'",
    }
    assert argv({}, **knobs)[:6] == ["/opt/java", "-cp", "/lib;.", "-Xint", "-Dx=a b", "Hello"]


def test_a_job_without_a_main_class_is_its_users_fault() -> None:
    with pytest.raises(UserError, match="main class"):
        argv({"Args": ""})


def test_the_plan_of_a_java_job_starts_java() -> None:
    around = ExecuteSurroundings(sandbox="/s", slot="slot1", starter_pid=1, transfers=True)
    plan = plan_job(ClassAd(JOB), ClassAd(), around)
    assert plan.argv == ["/usr/bin/java", "-classpath", ".", "Hello", "one", "two"]
    assert plan.directory == "/s"


def test_what_java_says_becomes_attributes() -> None:
    assert java_facts(PRINTED) == {
        "HasJava": True,
        "JavaVersion": "17.0.15",
        "JavaVendor": "Debian",
        "JavaSpecificationVersion": "17",
    }
    assert java_facts("Error: could not create the Java Virtual Machine\n") == {}
