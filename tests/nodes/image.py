"""The image under test: this checkout's wheel and its dependencies on the local base, installed without a network.

Its tag is made from all that goes into it, so that a second run finds it there.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "containers"
BASE = "minipool-base:latest"
MPI_BASES = {"openmpiscript": "minipool-openmpi:latest", "mp2script": "minipool-mpich:latest"}
"""What has the MPI that a script of the pool is for."""
REPOSITORY = "minipool-nodes"


def image(engine: Any, base: str = BASE) -> str:
    """The tag of the image on this base, which is made when it is not there."""
    with tempfile.TemporaryDirectory(prefix="minipool-image-") as directory:
        context = Path(directory)
        wheels = context / "wheels"
        _pip("wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
        for name in ("Containerfile", "entry"):
            shutil.copy(RECIPE / name, context / name)
        tag = f"{REPOSITORY}:{_hash(context, engine.images.get(base).id)}"
        if tag in [known for found in engine.images.list(name=REPOSITORY) for known in found.tags]:
            return tag
        _fetch_dependencies(wheels, _python_of(engine, base))
        engine.images.build(
            path=str(context), dockerfile="Containerfile", tag=tag, rm=True, buildargs={"BASE": base, "OFFLINE": "1"}
        )
        return tag


def _hash(context: Path, base: str) -> str:
    found = hashlib.sha256(base.encode())
    for path in sorted(path for path in context.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(context)} {path.stat().st_mode:o}\n".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def _python_of(engine: Any, base: str) -> str:
    """The base's version of Python, whose wheels are needed."""
    command = ["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return str(engine.containers.run(base, command, remove=True, network_mode="none").decode().strip())


def _fetch_dependencies(wheels: Path, python: str) -> None:
    (own,) = wheels.glob("minipool-*.whl")
    _pip("download", "--only-binary=:all:", "--python-version", python, "--dest", str(wheels), str(own))


def _pip(command: str, *arguments: str) -> None:
    argv = [sys.executable, "-m", "pip", command, "-q", "--disable-pip-version-check", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}{done.stderr}"
