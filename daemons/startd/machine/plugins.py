"""Which schemes of URLs this machine can move: its file transfer plug-ins are asked at the start; all slots show it.

The pool's own plug-in is known without asking. Others are run as the account of jobs that have none here where the pool
is root's: a plug-in never runs as root.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, Final

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.world import RealSpawner
from daemons.host.account import NoAccount, fallback_account
from daemons.host.child_settings import url_plugins
from daemons.host.programs import Finished, ProgramError, refusal, run_blocking
from daemons.host.url_mover import argv_of, is_built_in
from daemons.startd.machine.findings import Findings
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.config import Config
from pool.files.plugins import (
    BadPlugin,
    Plugin,
    UrlFile,
    built_in_plugin,
    check_answers,
    read_answers,
    read_plugin,
    request_text,
)
from pool.files.s3 import SCHEMES

METHODS: Final = "HasFileTransferPluginMethods"
TEST_S: Final = 60.0


def known_at_once(config: Config) -> dict[str, Any]:
    """What need not be asked: the pool's own schemes, and that jobs may bring plug-ins."""
    paths = url_plugins(config)
    facts: dict[str, Any] = {"HasJobTransferPlugins": True}
    if any(is_built_in(path) for path in paths):
        facts[METHODS] = _methods(config, built_in_plugin().methods)
    return facts


async def keep_asking(start: DaemonStart, found: Findings, config_changed: Signal) -> None:
    """Ask now, and whenever the configuration has changed."""
    while True:
        changed = config_changed.next()
        await probe(start, found)
        await changed.wait()


async def probe(start: DaemonStart, found: Findings) -> None:
    """Ask the others, and tell the pool."""
    paths = url_plugins(start.config)
    tested = any(start.config.str(f"{method}_TEST_URL", default="") for method in built_in_plugin().methods)
    if not isinstance(start.world.spawner, RealSpawner) or (not tested and all(map(is_built_in, paths))):
        return
    facts, problems = await start.world.threads.run_sync(ask, start.config)
    for problem in problems:
        start.log.always(f"File transfer plugins: {problem}")
    found.learn(facts)


def ask(config: Config) -> tuple[dict[str, Any], list[str]]:
    """The machine's attributes about plug-ins, and what is wrong with them. Blocks."""
    limit_s = config.seconds("FILETRANSFER_PLUGIN_CLASSAD_TIMEOUT")
    methods: dict[str, Plugin] = {}
    attributes: dict[str, Any] = {}
    problems: list[str] = []
    for path in url_plugins(config):
        try:
            plugin = _described(config, path, limit_s)
        except PoolError as error:
            problems.append(str(error))
            continue
        attributes.update(plugin.attributes)
        methods.update(dict.fromkeys(plugin.methods, plugin))
    for method, plugin in list(methods.items()):
        url = config.str(f"{method}_TEST_URL", default="")
        if url and (problem := _test(config, plugin, url)):
            problems.append(f"{method} fails its test: {problem}")
            del methods[method]
    return {**attributes, METHODS: _methods(config, methods)}, problems


def _methods(config: Config, methods: Iterable[str]) -> str:
    """As the ad shows them; what is signed at the access point comes as https."""
    found = list(methods)
    if "https" in found and config.bool("SIGN_S3_URLS"):
        found += [scheme for scheme in SCHEMES if scheme not in found]
    return ",".join(found)


def _described(config: Config, path: str, limit_s: float) -> Plugin:
    if is_built_in(path):
        return built_in_plugin()
    if reason := refusal(path):
        raise BadPlugin(reason)
    done = _run(config, [path, "-classad"], limit_s)
    if done.status:
        raise BadPlugin(f"{path} -classad ended with status {done.status}: {done.stderr.strip()[-400:]}")
    return read_plugin(path, done.stdout)


def _test(config: Config, plugin: Plugin, url: str) -> str:
    """Fetch the test URL; what went wrong."""
    with tempfile.TemporaryDirectory(prefix="plugin-test-") as directory:
        # The plug-in runs as another account.
        os.chmod(directory, 0o777)
        base = os.path.join(directory, "test")
        files = [UrlFile(url, base)]
        with open(f"{base}.in", "w", encoding="utf-8") as file:
            file.write(request_text(files, plugin, ClassAd()))
        os.chmod(f"{base}.in", 0o644)
        argv = [*argv_of(plugin.program), "-infile", f"{base}.in", "-outfile", f"{base}.out"]
        try:
            done = _run(config, argv, TEST_S)
            with open(f"{base}.out", encoding="utf-8", errors="replace") as answers:
                check_answers(plugin, files, read_answers(answers.read()), done.status)
        except (PoolError, OSError) as error:
            return str(error)
    return ""


def _run(config: Config, argv: Sequence[str], limit_s: float) -> Finished:
    """Run a plug-in to its end; when its time is over, all that it started is killed with it."""
    identity: dict[str, Any] = {}
    try:
        if os.geteuid() == 0:
            account = fallback_account(config.str("NOBODY_USER", default="nobody"))
            identity = {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}
        end = run_blocking(argv, limit_s, cwd="/", **identity)
    except (ProgramError, NoAccount) as error:
        raise BadPlugin(str(error)) from None
    if end.timed_out:
        raise BadPlugin(f"{argv[0]} did not end within {limit_s:g} s")
    return end
