"""Builds wheel and sdist into dist/ and tries each in an environment of its own: `make release`.

What is tried: the metadata is valid and says the version of the code; every program, manual page and completion is
there; a pool starts, runs a job, shows an empty queue and stops, with nothing installed but what the file asks for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from functools import partial
from pathlib import Path
from typing import Final

from packaging.metadata import Metadata

ROOT: Final = Path(__file__).parent.parent
DIST: Final = ROOT / "dist"
TIMEOUT_S: Final = 120
JOB: Final = """\
executable = /bin/echo
arguments = released
transfer_executable = false
output = out
log = log
queue
"""


def main() -> int:
    """Build, check, try; the first thing that is wrong ends it with a message."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", str(DIST), cwd=ROOT)
    built = sorted(DIST.iterdir())
    if sorted(path.suffix for path in built) != [".gz", ".whl"]:
        raise SystemExit(f"{DIST} holds {', '.join(path.name for path in built)} (expected a wheel and an sdist)")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for path in built:
        check_metadata(path, project["version"])
        try_it(path, sorted(project["scripts"]), project["version"])
        print(f"{path.relative_to(ROOT)} is good", flush=True)
    return 0


def check_metadata(path: Path, version: str) -> None:
    """The metadata of a built file is valid, of this version, and has the README."""
    found = Metadata.from_email(raw_metadata(path), validate=True)
    if str(found.version) != version:
        raise SystemExit(f"{path.name} is version {found.version} (expected {version})")
    if found.description_content_type != "text/markdown" or not (found.description or "").startswith("# minipool"):
        raise SystemExit(f"{path.name}: the description is not README.md")


def raw_metadata(path: Path) -> bytes:
    """METADATA of a wheel, PKG-INFO of an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            return archive.read(name)
    with tarfile.open(path) as archive:
        (name,) = [name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO")]
        member = archive.extractfile(name)
        assert member is not None
        return member.read()


def try_it(path: Path, programs: list[str], version: str) -> None:
    """Install the file in a new environment, and use what it brings."""
    with tempfile.TemporaryDirectory(prefix="minipool-release.") as name:
        place = Path(name)
        place.chmod(0o755)  # jobs run as another account
        venv.create(place / "venv", with_pip=True)
        run(place / "venv/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", path, cwd=place)
        missing = [program for program in programs if not (place / "venv/bin" / program).exists()]
        missing += [file for file in shared_files() if not (place / "venv/share" / file).is_file()]
        if missing:
            raise SystemExit(f"{path.name} does not install {', '.join(missing)}")
        said = run(place / "venv/bin/python", "-c", "import minipool; print(minipool.__version__)", cwd=place)
        if said.strip() != version:
            raise SystemExit(f"{path.name}: minipool.__version__ is {said.strip()} (expected {version})")
        run_a_job(place)


def shared_files() -> list[str]:
    """The manual pages and completions, below share/."""
    share = ROOT / "docs" / "share"
    return sorted(str(path.relative_to(share)) for path in share.rglob("*") if path.is_file())


def run_a_job(place: Path) -> None:
    """From a pool that starts to a pool that has stopped."""
    tools = place / "venv/bin"
    (place / "work").mkdir()
    (place / "work" / "job.sub").write_text(JOB)
    environment = {"POOL_DIR": str(place / "pool"), "PATH": f"{tools}:/usr/bin:/bin"}
    tool = partial(run, cwd=place / "work", environment=environment)
    tool(tools / "pool", "up", "--dir", place / "pool", "-c", "NUM_CPUS=1")
    try:
        tool(tools / "condor_submit", "job.sub")
        tool(tools / "condor_wait", "-wait", str(TIMEOUT_S // 2), "log")
        queue = tool(tools / "condor_q", "-totals", "-all")
    finally:
        tool(tools / "pool", "down")
    if (printed := (place / "work" / "out").read_text()) != "released\n":
        raise SystemExit(f"the job printed {printed!r} (expected 'released')")
    if "0 jobs" not in queue:
        raise SystemExit(f"condor_q says, after the job:\n{queue}")


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """What a command prints; a command that fails ends this program with what it said."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
