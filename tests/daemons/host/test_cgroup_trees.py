"""Where control groups can be made, on a kernel whose files are a table here."""

from __future__ import annotations

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
