"""Which package may import which: pool <- protocol <- daemons, minipool; and no two each other."""

from __future__ import annotations

import ast
import sys

import pytest

from tests.layers import FILES, TOPS, circle, imports, modules, packages

ALLOWED = {
    "pool": {"pool"},
    "protocol": {"protocol", "pool"},
    "daemons": {"daemons", "protocol", "pool"},
    "minipool": {"minipool", "protocol", "pool"},
}
OUTSIDE = {
    *("trio", "socket", "outcome", "msgpack", "threading", "asyncio"),
    *("subprocess", "psutil", "ctypes", "pynvml", "sqlite3", "glob", "platform", "pwd", "random", "secrets", "shutil"),
    *("os.walk", "os.listdir", "os.scandir", "os.stat", "os.environ", "os.getpid", "os.getloadavg", "os.urandom"),
    *("time.time", "time.monotonic", "time.perf_counter", "time.process_time", "datetime.now"),
}
"""What the domain does not touch: it is handed what it needs of the outside."""
ADAPTERS = {
    "pool.base.private_file": {"os.stat"},
    "pool.classad.values.environment": {"random"},
    "pool.config.load": {"os.environ", "os.listdir"},
    "pool.config.places": {"os.getpid", "pwd"},
    "pool.gpus.driver": {"ctypes"},
    "pool.gpus.hip": {"ctypes"},
    "pool.gpus.meter": {"ctypes", "pynvml"},
    "pool.gpus.nvml": {"pynvml"},
    "pool.gpus.opencl": {"ctypes"},
    "pool.gpus.vendors": {"os.environ"},
    "pool.hosts.register": {"sqlite3"},
    "pool.hosts.sendmail": {"subprocess", "pwd", "shutil"},
    "pool.jobs.queue.backup": {"sqlite3"},
    "pool.jobs.queue.history": {"sqlite3"},
    "pool.jobs.queue.store": {"sqlite3"},
    "pool.macros.chance": {"os.urandom"},
    "pool.slots.idle": {"psutil", "os.listdir"},
    "pool.slots.provision.detect": {"os.getloadavg", "os.stat", "platform", "psutil", "shutil"},
    "pool.submit.world": {"glob", "os.stat", "os.walk"},
}
"""The modules of the domain that are its ways to the outside, and to what."""


@pytest.mark.parametrize("top", sorted(TOPS))
def test_imports_point_one_way(top: str) -> None:
    wrong = [
        f"{path}:{one.line}: imports {one.name}"
        for name, path in FILES.items()
        if name.partition(".")[0] == top
        for one in imports(path)
        if one.name.partition(".")[0] in TOPS.keys() - ALLOWED[top]
    ]
    assert wrong == []


def test_no_module_imports_one_that_imports_it() -> None:
    assert circle(modules()) == []


def test_no_package_imports_one_that_imports_it() -> None:
    assert circle(packages()) == []


def test_the_domain_touches_the_outside_only_where_it_says_so() -> None:
    found: dict[str, set[str]] = {}
    for name, path in FILES.items():
        if name.partition(".")[0] == "pool":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            used = {one.name.partition(".")[0] for one in imports(path) if not one.for_types}
            attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
            used |= {f"{node.value.id}.{node.attr}" for node in attributes if isinstance(node.value, ast.Name)}
            if touched := used & OUTSIDE:
                found[name] = touched
    assert found == ADAPTERS


def test_no_module_of_ours_has_the_name_of_a_standard_one() -> None:
    ours = {name.rpartition(".")[2] for name, path in FILES.items() if path.name != "__init__.py"} | set(TOPS)
    assert ours & set(sys.stdlib_module_names) == set()


def test_no_folder_holds_more_modules_than_can_be_seen_at_a_glance() -> None:
    sizes: dict[str, int] = {}
    for name, path in FILES.items():
        if path.name != "__init__.py":
            sizes[name.rpartition(".")[0]] = sizes.get(name.rpartition(".")[0], 0) + 1
    assert {package: size for package, size in sizes.items() if size > 25} == {}
