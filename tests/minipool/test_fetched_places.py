"""Where condor_transfer_data lets an access point's files go."""

from __future__ import annotations

from pathlib import Path

import pytest

from minipool.client.fetched_places import Places
from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.files.spool import fetched_to


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home" / "u"
    (home / "jobs" / "logs").mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / "jobs" / "away").symlink_to(tmp_path)
    (home / "jobs" / "rc").symlink_to(home / ".bashrc")
    (home / "jobs" / "inside").symlink_to("logs")
    return home


def place(home: Path, here: str, iwd: str, name: str = "out", remaps: str = "") -> str:
    """Where a file goes by an ad, for a user of this home directory who is in `here`; paths are those of `home`."""
    ad = ClassAd({"SUBMIT_Iwd": str(home / iwd), "SUBMIT_TransferOutputRemaps": remaps.format(home=home)})
    found = Places(fetched_to(ad), str(home / here), str(home)).where(name)
    return str(Path(found).relative_to(home))


@pytest.mark.parametrize(
    ("here", "iwd", "name", "remaps", "goes_to"),
    [
        ("jobs", "jobs", "out", "", "jobs/out"),
        ("", "jobs", "out", "", "jobs/out"),
        ("jobs", "jobs", "out", "out=logs/1", "jobs/logs/1"),
        ("jobs", "jobs", "out", "out={home}/jobs/logs/1", "jobs/logs/1"),
        ("jobs", "jobs", "out", "out=inside/1", "jobs/inside/1"),
        ("jobs", "jobs", "d/.hidden", "", "jobs/d/.hidden"),
        ("jobs", "jobs/logs", "out", "out=../1", "jobs/logs/../1"),
        ("jobs", "jobs", ".profile", "", "jobs/.profile"),
        (".ssh", ".ssh", "config", "", ".ssh/config"),
    ],
)
def test_files_go_where_their_user_is(home: Path, here: str, iwd: str, name: str, remaps: str, goes_to: str) -> None:
    assert place(home, here, iwd, name, remaps) == goes_to


@pytest.mark.parametrize(
    ("here", "iwd", "name", "remaps"),
    [
        ("jobs", "", "out", ""),
        ("jobs", "jobs", "out", "out=../x"),
        ("jobs", "jobs", "out", "out={home}/x"),
        ("jobs", "jobs", "out", "out=away/x"),
        ("jobs", "jobs", "out", "out=rc"),
        ("jobs", "jobsheet", "out", ""),
        ("", "", ".bashrc", ""),
        ("", "", "out", "out=.ssh/authorized_keys"),
        ("", "jobs", "out", "out=rc"),
        ("", ".ssh", "authorized_keys", ""),
    ],
)
def test_an_access_point_writes_nowhere_else(home: Path, here: str, iwd: str, name: str, remaps: str) -> None:
    with pytest.raises(UserError, match=r"is not fetched"):
        place(home, here, iwd, name, remaps)


def test_whoever_is_at_the_root_fetches_for_all_directories(home: Path) -> None:
    assert Places(lambda name: f"{home}/jobs/{name}", "/", str(home)).where("out") == f"{home}/jobs/out"
    with pytest.raises(UserError, match="hidden"):
        Places(lambda name: f"{home}/{name}", "/", str(home)).where(".bashrc")
