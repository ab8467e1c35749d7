"""What a FETCH_WORK hook may print."""

from __future__ import annotations

import pytest

from pool.base.errors import ClassAdError
from pool.classad import ClassAd
from pool.execute.plan import ExecuteSurroundings, plan_job
from pool.hooks.fetched import BadWork, complete, log_path, read_work

SIZED = {"RequestCpus": 1, "RequestMemory": 64, "RequestDisk": 1024}


def completed(*, partitionable: bool = False, as_root: bool = True, **attributes: object) -> ClassAd:
    ad = ClassAd(attributes)
    return complete(ad, "MINE", partitionable=partitionable, as_root=as_root, uid_domain="pool.test")


@pytest.mark.parametrize("text", ["", "\n", "  \n\n", "# nothing to do\n"])
def test_nothing_is_no_work(text: str) -> None:
    assert read_work(text) is None


def test_garbage_is_an_error_with_its_line() -> None:
    with pytest.raises(ClassAdError) as error:
        read_work('Cmd = "/bin/true"\nnonsense\n')
    assert error.value.span is not None
    assert error.value.span.line == 2


@pytest.mark.parametrize(
    ("attributes", "options", "why"),
    [
        ({"Owner": "ann"}, {}, "no Cmd"),
        ({"Cmd": 5, "Owner": "ann"}, {}, "no Cmd"),
        ({"Cmd": "/bin/true"}, {}, "no Owner"),
        ({"Cmd": "/bin/true", "Owner": "ann"}, {"partitionable": True}, "no RequestCpus, RequestMemory, RequestDisk"),
        ({"Cmd": "/bin/true", "Owner": "ann", **SIZED, "RequestDisk": "x"}, {"partitionable": True}, "no RequestDisk"),
        ({"Cmd": "/bin/true", "Owner": "ann", "JobUniverse": 9}, {}, "universe 9"),
    ],
)
def test_work_that_lacks_something_is_not_taken(
    attributes: dict[str, object], options: dict[str, bool], why: str
) -> None:
    with pytest.raises(BadWork, match=why):
        completed(**options, **attributes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attributes", "options"),
    [
        ({"Cmd": "/bin/true", "Owner": "ann"}, {}),
        ({"Cmd": "/bin/true", "User": "ann@pool"}, {}),
        ({"Cmd": "/bin/true"}, {"as_root": False}),
        ({"Cmd": "/bin/true", "Owner": "ann", **SIZED}, {"partitionable": True}),
    ],
)
def test_work_that_says_enough_is_taken(attributes: dict[str, object], options: dict[str, bool]) -> None:
    ad = completed(**options, **attributes)  # type: ignore[arg-type]
    assert ad.eval_str("HookKeyword") == "MINE"
    assert (ad.eval_int("ClusterId"), ad.eval_int("ProcId"), ad.eval_int("JobUniverse")) == (1, 0, 5)
    assert ad.eval_str("Owner") == (None if options.get("as_root") is False else "ann")


@pytest.mark.parametrize(
    ("attributes", "user"),
    [
        ({"Owner": "ann"}, "ann@pool.test"),
        ({"Owner": "ann", "User": "ann"}, "ann@pool.test"),
        ({"User": "ann@elsewhere.test"}, "ann@elsewhere.test"),
        ({}, None),
    ],
)
def test_the_owner_of_work_is_a_user_of_this_domain(attributes: dict[str, str], user: str | None) -> None:
    assert completed(Cmd="/bin/true", as_root=False, **attributes).eval_str("User") == user


def test_what_a_starter_runs_for_it() -> None:
    ad = completed(
        Cmd="bin/run",
        Owner="ann",
        IWD="/home/ann",
        In="in",
        Out="/tmp/out",
        Env="A=1;B=two words",
        Args="one two",
    )
    plan = plan_job(ad, ClassAd(), ExecuteSurroundings(sandbox="/dir_1", slot="slot1", starter_pid=1, transfers=False))
    assert plan.argv == ["/home/ann/bin/run", "one", "two"]
    assert (plan.directory, plan.stdin, plan.stdout, plan.stderr) == (
        "/home/ann",
        "/home/ann/in",
        "/tmp/out",
        "/dev/null",
    )
    assert (plan.environment["A"], plan.environment["B"]) == ("1", "two words")


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"Args": "Main x"}, ["Main", "x"]),
        ({"Arguments": "Main 'x y'"}, ["Main", "x y"]),
    ],
)
def test_a_java_program_runs_with_its_jars(attributes: dict[str, str], words: list[str]) -> None:
    ad = completed(Cmd="Main", Owner="ann", JobUniverse=10, JarFiles="a.jar b.jar", **attributes)
    plan = plan_job(ad, ClassAd(), ExecuteSurroundings(sandbox="/dir_1", slot="slot1", starter_pid=1, transfers=False))
    assert plan.argv == ["/usr/bin/java", "-classpath", ".:a.jar:b.jar", *words]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, ""),
        ({"StarterUserLog": "/logs/x"}, "/logs/x"),
        ({"StarterUserLog": "x", "IWD": "/home/ann/"}, "/home/ann/x"),
        ({"StarterUserLog": "x"}, "/dir_1/x"),
    ],
)
def test_where_its_own_log_is(attributes: dict[str, str], expected: str) -> None:
    assert log_path(ClassAd(attributes), "/dir_1") == expected
