"""A tool's start-up is what a user waits for: it imports none of the slow packages, and each tool can be started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minipool.cli.entry.names import POOL_VERBS, TOOLS

SLOW = (
    "trio",
    "numpy",
    "rich",
    "psutil",
    "lark",
    "cryptography",
    "asyncio",
    "argparse",
    "dataclasses",
    "inspect",
    "socket",
    "ssl",
    "logging",
    "pool.classad.eval.functions",
)
SLOW_EVERY_DAY = ("json", "subprocess", "tempfile", "pathlib", "urllib.parse", "uuid")
"""What only some tools need; those of every day start without."""
EVERY_DAY = ("rm", "config_val", "findhost", "history", "now", "prio", "q", "qusers", "status", "submit", "version")
PATH = f"import sys; sys.path[:] = {[path for path in sys.path if path]!r}\n"
"""Where everything is, without what this installation imports at its start by itself (`site`)."""
USUAL = """
import sys
import minipool.cli.entry.main, minipool.cli.entry.tool, minipool.cli.entry.options
import minipool.cli.{module}
import protocol.rpc.blocking, protocol.security.credentials, protocol.messages.schedd, protocol.messages.common
from minipool.client.session import Session
Session.open(directory={directory!r}).security
print(*sorted(name for name in {slow!r} if name in sys.modules))
"""


@pytest.mark.parametrize("module", sorted({module for module, _ in (*TOOLS.values(), *POOL_VERBS.values())}))
def test_no_slow_package_is_imported_at_start_up(module: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    slow = tuple(name for name in SLOW if not (module.startswith("classad") and name.startswith("pool.")))
    code = USUAL.format(module=module, slow=slow, directory=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("verb", EVERY_DAY)
def test_tools_of_every_day_import_nothing_that_few_of_them_need(verb: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    code = USUAL.format(module=TOOLS[verb][0], slow=SLOW_EVERY_DAY, directory=str(tmp_path))
    done = subprocess.run([sys.executable, "-S", "-c", PATH + code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("verb", EVERY_DAY)
def test_tools_of_every_day_compile_no_pattern_and_have_no_parser_before_they_need_it(
    verb: str, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    watch = "import re\nmake, made = re._compiler.compile, []\n"
    watch += "re._compiler.compile = lambda text, flags=0: made.append(text) or make(text, flags)\n"
    unneeded = ("pool.classad.syntax.parse", "copy")
    code = USUAL.format(module=TOOLS[verb][0], slow=unneeded, directory=str(tmp_path)) + "print(*made)\n"
    done = subprocess.run([sys.executable, "-S", "-c", PATH + watch + code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("verb", EVERY_DAY)
def test_tools_of_every_day_read_no_annotation_that_is_a_text(verb: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    watch = "import typing\nmake, read = typing.ForwardRef.__init__, []\n"
    watch += "typing.ForwardRef.__init__ = lambda self, text, *how, **more: read.append(text) or make(self, text)\n"
    code = USUAL.format(module=TOOLS[verb][0], slow=(), directory=str(tmp_path))
    code += "import minipool.client.submission, pool.submit.without_effect, pool.classad.syntax.parse\nprint(*read)\n"
    done = subprocess.run([sys.executable, "-S", "-c", PATH + watch + code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_submit_reads_a_description_without_slow_packages(tmp_path: Path) -> None:
    (tmp_path / "job.sub").write_text("executable = /bin/true\narguments = $(Process)\nqueue 2\n")
    code = (
        "import sys\nfrom minipool.cli.entry.main import dispatch\n"
        "status = dispatch('submit', ['-dry-run', '-', 'job.sub'])\n"
        f"print(*(name for name in {SLOW[:-1]!r} if name in sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stderr.strip(), done.stdout.splitlines()[-1]) == ("", "2 job(s) dry-run to cluster 1.")


def test_every_tool_has_its_program() -> None:
    import tomllib

    project = Path(__file__).parents[3] / "pyproject.toml"
    if project.exists():
        scripts = tomllib.loads(project.read_text())["project"]["scripts"]
        tools = {name for name, entry in scripts.items() if entry == "minipool.cli.entry.main:condor"}
        assert {f"condor_{name}" for name in TOOLS} == {name for name in tools if name.startswith("condor_")}


@pytest.mark.parametrize("verb", ["q", "status", "submit", "rm", "up"])
def test_help_goes_to_standard_output_and_is_no_failure(verb: str) -> None:
    code = f"import sys; from minipool.cli.entry.main import dispatch; sys.exit(dispatch({verb!r}, ['-help']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")


def test_pool_alone_helps_and_a_wrong_verb_says_what_was_probably_meant(capsys: pytest.CaptureFixture[str]) -> None:
    from minipool.cli.entry.main import pool_main

    assert pool_main([]) == 0
    assert "start a pool on this host" in capsys.readouterr().out
    assert pool_main(["statsu"]) == 1
    assert "did you mean 'status'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["q", "-jobads", "jobs.ads", "-nobatch"],
        ["q", "-jobads", "jobs.ads", "-af:jh", "Owner", "JobPrio + 1"],
        ["q", "-jobads", "jobs.ads", "-print-format", "queue.cpf"],
        ["status", "-ads", "../machines.ads", "-compact"],
        ["history", "-file", "history", "-limit", "2"],
        ["completion", "bash"],
    ],
)
def test_tables_are_printed_without_slow_packages(argv: list[str]) -> None:
    slow = tuple(name for name in SLOW if not name.startswith("pool.") and argv[0] != "completion") or SLOW[:6]
    code = (
        f"import sys\nfrom minipool.cli.entry.main import dispatch\nstatus = dispatch({argv[0]!r}, {argv[1:]!r})\n"
        f"print(status, *(name for name in {slow!r} if name in sys.modules), file=sys.stderr)\n"
    )
    files = Path(__file__).parents[2] / "cases" / "cli" / "files"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=files)
    assert done.stderr.strip() == "0"
    assert done.stdout


def test_condor_dagman_imports_nothing_that_no_graph_needs() -> None:
    """Its start is most of what a small graph, or its recovery, costs."""
    needless = ("numpy", "rich", "psutil", "lark", "cryptography", "asyncio", "pool.jobs.userlog.event_log")
    code = f"import minipool.dagman.main; print(*sorted(name for name in {needless!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", PATH + code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
