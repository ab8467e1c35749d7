"""What jobs have left in SPOOL is found, whatever else lies there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from daemons.schedd.files.checkpoint_cleanup import ASIDE, CheckpointCleanup
from daemons.schedd.files.directories import Directories
from pool.base.ids import JobId
from pool.files.spool import spool_path


async def test_one_directory_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    class Threads:
        async def run_sync(self, fn: Any, *args: Any) -> Any:
            return fn(*args)

    left = [spool_path(str(tmp_path), JobId(*id)) for id in ((1, 0), (30_005, 7), (77_777, 0))]
    for path in left:
        Path(path).mkdir(parents=True)
    for number in range(1, 300):  # what is no directory, in the way of most of the numbers
        if not (tmp_path / str(number)).exists():
            (tmp_path / str(number)).touch()
    removed: list[str] = []

    async def remove(path: str) -> None:
        removed.append(path)

    directories: Any = SimpleNamespace(
        base=str(tmp_path), _start=SimpleNamespace(world=SimpleNamespace(threads=Threads()))
    )
    await Directories.sweep(directories, lambda id: True, remove)
    assert sorted(removed) == sorted(left)


def test_what_is_no_directory_hides_nobody_s_checkpoints(tmp_path: Path) -> None:
    aside = tmp_path / ASIDE
    for name in ("ann/5.0", "zoe/6.0"):
        (aside / name).mkdir(parents=True)
    (aside / "notes").touch()
    core: Any = SimpleNamespace(directories=SimpleNamespace(base=str(tmp_path)))
    waiting = CheckpointCleanup(core, None)._waiting()  # type: ignore[arg-type]
    assert waiting == [("ann", f"{aside}/ann/5.0"), ("zoe", f"{aside}/zoe/6.0")]
