"""Where control groups can be made, on a kernel whose files are a table here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemons.host import cgroup_trees
from pool.execute.cgroup import Trees


def test_processes_that_begin_and_end_while_they_are_moved_cost_no_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "daemons.service"
    own.mkdir()
    processes = [41, 42, 43]

    def write(path: str, value: str) -> None:
        if path.endswith("minipool-daemons/cgroup.procs"):
            processes.remove(int(value))
            if value == "42":
                raise ProcessLookupError  # it has ended since it was listed
            if value == "43":
                processes.append(44)  # it has forked

    def read(path: str) -> str:
        return "".join(f"{pid}\n" for pid in processes) if path == f"{own}/cgroup.procs" else ""

    monkeypatch.setattr(cgroup_trees, "all_trees", lambda _lines: [Trees(2, (("", str(tmp_path)),))])
    monkeypatch.setattr(cgroup_trees, "write_file", write)
    monkeypatch.setattr(cgroup_trees, "read_file", read)
    monkeypatch.setattr(cgroup_trees, "_own_group_v2", lambda _mount: str(own))
    usable = cgroup_trees.usable_trees("htcondor")
    assert (usable.version, usable.mounts) == (2, (("", str(own)),))
    assert processes == []


def test_a_group_that_another_startd_makes_at_the_same_moment_costs_no_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers = [(name, str(tmp_path / name)) for name in ("memory", "pids")]
    for _, mount in controllers:
        Path(mount).mkdir()
    make = os.mkdir

    def mkdir(path: str) -> None:
        if path.endswith("/htcondor") and not os.path.exists(path):
            make(path)  # the other one's
        make(path)

    monkeypatch.setattr(cgroup_trees, "all_trees", lambda _lines: [Trees(1, tuple(controllers))])
    monkeypatch.setattr(os, "mkdir", mkdir)
    assert cgroup_trees.usable_trees("htcondor").mounts == tuple(controllers)


class Kernel:
    """The files of a tree of version 2: what a group hands down is what those below it have."""

    def __init__(self, mount: Path, own: Path, *, may_write: bool) -> None:
        self.mount, self.own, self.may_write = mount, own, may_write
        self.handed_down = {mount: ["memory"], own.parent: ["memory"]}

    def read(self, path: str) -> str:
        file = Path(path)
        if file.name == "cgroup.controllers":
            all = ["cpuset", "cpu", "io", "memory", "pids"]
            return " ".join(all if file.parent == self.mount else self.handed_down.get(file.parent.parent, []))
        return " ".join(self.handed_down.get(file.parent, [])) if file.name == "cgroup.subtree_control" else ""

    def write(self, path: str, value: str) -> None:
        file = Path(path)
        if file.name != "cgroup.subtree_control":
            return
        if not (self.may_write or file.is_relative_to(self.own)):
            raise PermissionError(path)
        there = self.handed_down.setdefault(file.parent, [])
        if value[1:] not in self.read(str(file.parent / "cgroup.controllers")).split():
            raise FileNotFoundError(path)
        there += [] if value[1:] in there else [value[1:]]


@pytest.mark.parametrize(("root", "limits"), [(True, {"memory", "cpu", "pids", "io"}), (False, {"memory"})])
def test_a_service_without_delegation_gets_all_controllers_where_root_can_hand_them_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: bool, limits: set[str]
) -> None:
    own = tmp_path / "system.slice" / "pool.service"
    own.mkdir(parents=True)
    kernel = Kernel(tmp_path, own, may_write=root)
    monkeypatch.setattr(cgroup_trees, "all_trees", lambda _lines: [Trees(2, (("", str(tmp_path)),))])
    monkeypatch.setattr(cgroup_trees, "write_file", kernel.write)
    monkeypatch.setattr(cgroup_trees, "read_file", kernel.read)
    monkeypatch.setattr(cgroup_trees, "_own_group_v2", lambda _mount: str(own))
    assert cgroup_trees.usable_trees("htcondor").controllers == limits
