from __future__ import annotations

import pytest

from pool.base.errors import PeerError, UserError
from pool.classad import ClassAd
from pool.files.transfer import (
    Destinations,
    InputItem,
    Stamp,
    check_link,
    check_names,
    input_items,
    listed_outputs,
    new_or_changed,
    output_name,
    output_wanted,
    remaps_of,
    standard_outputs,
    url_inputs,
)


def job(**attributes: object) -> ClassAd:
    return ClassAd({"Cmd": "/opt/bin/prog", "Iwd": "/home/u/run", "Out": "o.txt", "Err": "e.txt", **attributes})


def test_the_program_standard_input_and_the_list_go_in() -> None:
    ad = job(Cmd="bin/prog", In="data/numbers", TransferInput="a.txt, dir ,dir2/, /etc/motd")
    assert input_items(ad) == [
        InputItem("/home/u/run/bin/prog", "prog", program=True),
        InputItem("/home/u/run/data/numbers", "numbers"),
        InputItem("/home/u/run/a.txt", "a.txt"),
        InputItem("/home/u/run/dir", "dir"),
        InputItem("/home/u/run/dir2", "", contents=True),
        InputItem("/etc/motd", "motd"),
    ]


def test_what_need_not_go_in_stays() -> None:
    assert input_items(job(TransferExecutable=False, In="/dev/null")) == []
    assert input_items(job(TransferExecutable=False, In="there", TransferIn=False)) == []


def test_relative_paths_can_be_kept() -> None:
    ad = job(TransferExecutable=False, PreserveRelativePaths=True, TransferInput="a/x, b/x, /abs/y, c/d/")
    assert [(item.name, item.contents) for item in input_items(ad)] == [
        ("a/x", False),
        ("b/x", False),
        ("y", False),
        ("c", True),
    ]
    with pytest.raises(UserError, match="leads out"):
        input_items(job(PreserveRelativePaths=True, TransferInput="../x"))


def test_urls_are_left_to_plugins_and_the_jobs_own_plugins_go_along() -> None:
    a_job = job(TransferInput="https://example.org/x?y, plain", TransferPlugins="oak=lib/oak.py")
    assert [item.name for item in input_items(a_job) if not item.name.startswith("run")][-2:] == ["oak.py", "plain"]
    assert url_inputs(a_job) == [("https://example.org/x?y", "x")]


@pytest.mark.parametrize(
    ("attributes", "name", "url"),
    [
        ({}, "a", None),
        ({"TransferOutputRemaps": "a=oak://b"}, "a", "oak://b"),
        ({"TransferOutputRemaps": "d=oak://b"}, "d/a", "oak://b/a"),
        ({"OutputDestination": "oak://b/"}, "d/a", "oak://b/d/a"),
        ({"OutputDestination": "oak://b", "TransferOutputRemaps": "a=c"}, "a", "oak://b/c"),
        ({"OutputDestination": "oak://b"}, "_condor_stdout", None),
        ({"OutputDestination": "oak://b", "Out": "oak://b"}, "_condor_stdout", "oak://b/_condor_stdout"),
        ({"Out": "oak://b/log.txt"}, "_condor_stdout", "oak://b/log.txt"),
    ],
)
def test_which_output_goes_to_a_url(attributes: dict[str, object], name: str, url: str | None) -> None:
    assert Destinations(job(**attributes)).url(name) == url


def test_new_and_changed_files_come_back() -> None:
    before = {"in": Stamp(1, 5), "kept": Stamp(1, 5), "gone": Stamp(1, 1)}
    after = {
        "in": Stamp(2, 5),
        "kept": Stamp(1, 5),
        "new": Stamp(3, 0),
        ".job.ad": Stamp(9, 9),
        "_condor_stdout": Stamp(9, 9),
    }
    assert new_or_changed(before, after) == ["in", "new"]


def test_an_empty_list_means_no_files_and_no_list_means_all() -> None:
    assert listed_outputs(job()) is None
    assert listed_outputs(job(TransferOutput="")) == []
    assert listed_outputs(job(TransferOutput="a, d1/o3")) == ["a", "d1/o3"]


@pytest.mark.parametrize(
    ("attributes", "name", "path"),
    [
        ({}, "result", "/home/u/run/result"),
        ({}, "_condor_stdout", "/home/u/run/o.txt"),
        ({"Err": "/abs/e"}, "_condor_stderr", "/abs/e"),
        ({"TransferOutput": "d1/o3"}, "o3", "/home/u/run/o3"),
        ({"TransferOutput": "d1"}, "d1/sub/x", "/home/u/run/d1/sub/x"),
        ({"TransferOutputRemaps": "result=/data/r.1;x = y"}, "result", "/data/r.1"),
        ({"TransferOutputRemaps": "result=/data/r.1;x = y"}, "x", "/home/u/run/y"),
        ({"TransferOutput": "d1", "TransferOutputRemaps": "d1=out/1"}, "d1/x", "/home/u/run/out/1/x"),
        ({"TransferOutput": "d1", "TransferOutputRemaps": "d1/x=x1"}, "d1/x", "/home/u/run/x1"),
    ],
)
def test_where_output_goes(attributes: dict[str, object], name: str, path: str) -> None:
    assert Destinations(job(**attributes)).place(name) == path


@pytest.mark.parametrize(
    ("remap", "made"),
    [("x=new/x", True), ("x=/data/new/x", False), ("x=../new/x", False), ("y=new/y", False), ("x=x", False)],
)
def test_which_remaps_may_name_new_directories(remap: str, made: bool) -> None:
    assert Destinations(job(TransferOutputRemaps=remap, Out="new/o")).may_make_way("x") is made
    assert Destinations(job(TransferOutputRemaps=remap, Out="new/o")).may_make_way("_condor_stdout")
    assert not Destinations(job(TransferOutputRemaps=remap, Out="../new/o")).may_make_way("_condor_stdout")


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({}, "../x"),
        ({}, "/etc/passwd"),
        ({}, "a/../../b"),
        ({}, "a//b"),
        ({}, "."),
        ({}, ""),
        ({}, "a\0b"),
        ({}, "sub/file"),
        ({}, ".job.ad"),
        ({"TransferOutput": "a"}, "b"),
        ({"TransferOutput": "a"}, "ab"),
        ({"TransferOutput": ""}, "a"),
        ({"Out": "/dev/null"}, "_condor_stdout"),
        ({"Out": "x", "Err": "x"}, "_condor_stderr"),
        ({"TransferOutputRemaps": "a=https://example.org/a"}, "a"),
        ({}, "x" * 300),
    ],
)
def test_what_a_peer_may_not_send(attributes: dict[str, object], name: str) -> None:
    with pytest.raises(PeerError):
        Destinations(job(**attributes)).place(name)


def test_links_stay_within_what_is_transferred() -> None:
    check_link("d/link", "file")
    check_link("d/sub/link", "../file")
    for name, target in (
        ("d/link", "../x"),
        ("d/link", "/etc/passwd"),
        ("d/s/link", "../../e"),
        ("link", "other"),
        ("d/l", ""),
    ):
        with pytest.raises(PeerError):
            check_link(name, target)


def test_a_name_comes_once() -> None:
    with pytest.raises(PeerError, match="twice"):
        check_names(["a", "b", "a"])


def test_remaps_take_escaped_separators() -> None:
    assert remaps_of(job(TransferOutputRemaps=r"a\=b = c\;d ; e=f")) == {"a=b": "c;d", "e": "f"}


def test_standard_files_that_go_back() -> None:
    assert standard_outputs(job()) == ["_condor_stdout", "_condor_stderr"]
    assert standard_outputs(job(Out="x", Err="x")) == ["_condor_stdout"]
    assert standard_outputs(job(Out="/dev/null", TransferErr=False)) == []


def test_names_of_outputs() -> None:
    assert output_name(job(), "a/b/") == "b"
    assert output_name(job(PreserveRelativePaths=True), "a/b") == "a/b"


@pytest.mark.parametrize(
    ("when", "code", "wanted"),
    [
        (None, 1, True),
        ("ON_EXIT", None, True),
        ("ON_SUCCESS", 0, True),
        ("ON_SUCCESS", 1, False),
        ("ON_SUCCESS", None, False),
        ("NEVER", 0, False),
    ],
)
def test_when_output_goes_back(when: str | None, code: int | None, wanted: bool) -> None:
    ad = job(**({"WhenToTransferOutput": when} if when else {}))
    assert output_wanted(ad, code) is wanted
