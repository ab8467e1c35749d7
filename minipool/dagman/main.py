"""From condor_dagman's command line to the run of a graph, and to its exit code.

What cannot be read or is refused ends the run before the lock is taken, and leaves no file but the log. Exit code 3
asks the schedd to run the job again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import trio

from minipool.client.async_line import AsyncLine
from minipool.client.session import Session
from minipool.client.surroundings import install_surroundings
from minipool.dagman.arguments import Options, own_words, parse
from minipool.dagman.configured import (
    bounds,
    complaints,
    configuration,
    course_settings,
    paths,
    reading,
    settings_text,
)
from minipool.dagman.contact import Contact
from minipool.dagman.dagman_out import DagmanOut
from minipool.dagman.files import Files, save_path
from minipool.dagman.lock import Lock, Locked
from minipool.dagman.manager import Manager
from minipool.dagman.own_job import OwnJob, own_id
from minipool.dagman.schedd import Schedd
from minipool.dagman.submitting import Around, inherited
from pool.base.errors import PoolError, UserError
from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION
from pool.classad import ClassAd
from pool.config import Config
from pool.dag.course.course import Course
from pool.dag.course.scripts import unknown_macros
from pool.dag.course.states import ExitCode
from pool.dag.graph import circles
from pool.dag.language.reader import read
from pool.dag.model import Dag

USAGE = "Usage: condor_dagman [-p 0] [-f] [-l .] [OPTIONS] DAG-FILE [DAG-FILE ...]\n(see condor_submit_dag)\n"

UNREADABLE: Final = "Startup Error: DAGMan failed to parse DAG file ({}). Was likely in recovery mode."
"""Why jobs of nodes are removed by a run that cannot read the graph."""


def main(words: Sequence[str]) -> int:
    """Run condor_dagman; its exit code."""
    # HTCondor's own says so, and programs that look into x.dag.lib.out expect it.
    sys.stdout.write("Executing condor dagman ... \n")
    sys.stdout.flush()
    try:
        options = parse(words)
    except UserError as error:
        sys.stderr.write(f"{error}\n{USAGE}")
        return ExitCode.ERROR
    if options.asks:
        sys.stdout.write(USAGE if options.asks == "help" else f"{CONDOR_VERSION}\n{CONDOR_PLATFORM}\n")
        return ExitCode.OKAY
    install_surroundings()
    out = DagmanOut(os.environ.get("_CONDOR_DAGMAN_LOG") or "default.dagman.out")
    # Before anything can go wrong, so that the log has what did.
    out.starting(sys.argv[0])
    try:
        code = trio.run(_run, options, out)
    except (PoolError, OSError) as error:
        out.say(f"ERROR: {error}", level=0)
        sys.stderr.write(f"condor_dagman: {error}\n")
        code = ExitCode.ERROR
    out.ended(code)
    return code


async def _run(options: Options, out: DagmanOut) -> int:
    config = configuration()
    out.level = config.int("DAGMAN_VERBOSITY") if options.debug is None else options.debug
    if not config.bool("DAGMAN_DISABLE_ADMIN_THROTTLE_LIMITING"):
        out.say("Administrator set throttle limits enabled")
    out.say(*complaints(config), *settings_text(config))
    out.say(*(f'argv[{at}] == "{word}"' for at, word in enumerate([sys.argv[0], *own_words(sys.argv[1:])])))
    session = Session(config)
    async with trio.open_nursery() as nursery:
        line = AsyncLine(session, None, nursery, Contact(out.say))
        failure: PoolError | OSError | None = None
        try:
            code = await _with_schedd(options, out, session, Schedd(line))
        except (PoolError, OSError) as error:
            failure = error  # the nursery would wrap it up
        finally:
            await line.aclose()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code


async def _with_schedd(options: Options, out: DagmanOut, session: Session, schedd: Schedd) -> int:
    config, id = session.config, own_id()
    own = OwnJob(schedd, id, ClassAd() if id is None else await schedd.job(id) or ClassAd(), bounds(config))
    if id is None:
        out.say("No HTCondor ID available for DAGMan (running on command line?)")
    dag_id = -1 if id is None else id.cluster
    names = {"CLUSTER": str(dag_id), "OWNER": session.user(), "NODE_NAME": own.ad.eval_str("DAGNodeName") or "undef"}
    where = paths(options, config, names)
    files = _files(options, config, where.metrics, out)
    lock = Lock(where.lock)
    if (ended := _ended(files, own, lock, out)) is not None:
        return ended
    settings = course_settings(options, config, dag_id)
    # A limit that a user has edited holds for the next run of the same job, too.
    settings = settings._replace(limits=own.limits(settings.limits))
    _say_settings(out, own, options, where.nodes_log, settings.limits)
    dag = await _graph(options, config, files, out, own)
    _warn(options, config, dag, out)
    if (refused := _refused(config, dag)) is not None:
        out.say(refused, level=0)
        return ExitCode.ERROR
    if (held := _take(lock, dag_id, out, where.lock)) is not None:
        return held
    out.say("Bootstrapping...", level=3)
    course = Course(dag, settings)
    out.say(f"Number of pre-completed nodes: {course.done}", level=3)
    await own.introduce(options.primary, settings.limits)
    around = _around(options, config, own, where.nodes_log, dag_id)
    manager = Manager(session, options, course, where, around, own, files, out)
    if files.rescue_number or lock.was_there:
        course.sequence = files.last_sequence(dag.jobstate_log)
    files.internal(course, f"DAGMAN_STARTED {id or '-1.-1'}")
    _draw(options, files, course, out)
    code = int(ExitCode.OKAY)
    if not (options.only_dot or options.setup_only):
        code = await manager.run(lock, recovery=lock.was_there or options.do_recovery)
    # What is to run again shall find the lock, and with it that there is something to recover.
    if code != ExitCode.RESTART:
        lock.remove()
    return code


def _ended(files: Files, own: OwnJob, lock: Lock, out: DagmanOut) -> int | None:
    """What an earlier process of this job returned that has ended the graph, and was killed before its exit."""
    files.go_on_from = lock.rescue if lock.was_there else None
    if own.id is None or (code := files.ended(own.id.cluster, own.ad.eval_int("QDate", 0))) is None:
        return None
    out.say(f"This job has run the graph already, and returned {code}")
    if lock.was_there:
        lock.remove()
    return code


def _files(options: Options, config: Config, metrics: str, out: DagmanOut) -> Files:
    return Files(
        options.dags,
        metrics,
        out.say,
        graph_metrics=config.bool("DAGMAN_REPORT_GRAPH_METRICS"),
        rescue_max=config.int("DAGMAN_MAX_RESCUE_NUM"),
        reset_retries=config.bool("DAGMAN_RESET_RETRIES_UPON_RESCUE"),
        metrics_version=config.int("DAGMAN_METRICS_FILE_VERSION"),
    )


def _draw(options: Options, files: Files, course: Course, out: DagmanOut) -> None:
    if options.only_dot and course.dag.dot is None:
        out.say("Unable to write .dot file, no DOT filename specified")
    if course.dag.dot is not None:
        out.say(f"Writing .dot file: {files.draw(course)}")


def _say_settings(out: DagmanOut, own: OwnJob, options: Options, log: str, limits: Sequence[int]) -> None:
    jobs, idle, pre, post, hold, submits = limits
    out.say(
        f"Workflow batch-id: <{own.batch_id()}>",
        f"Workflow batch-name: <{own.batch_name(options.primary)}>",
        f"Workflow accounting_group: <{own.ad.eval_str('AcctGroup') or ''}>",
        f"Workflow accounting_group_user: <{own.ad.eval_str('AcctGroupUser') or ''}>",
        f"Default node log file is: <{log}>",
        "Setting DAGMan throttles:",
        f"\tMaximum Idle Jobs-------------: {idle}",
        f"\tMaximum Pre Scripts-----------: {pre}",
        f"\tMaximum Hold Scripts----------: {hold}",
        f"\tMaximum Post Scripts----------: {post}",
        f"\tMaximum Submitted Nodes-------: {jobs}",
        f"\tMaximum Submits Per Interval--: {submits}",
        f"DAG Lockfile will be written to {options.lock_file or options.primary + '.lock'}",
        *(f"DAG Input file is {file}" for file in options.dags),
    )


async def _graph(options: Options, config: Config, files: Files, out: DagmanOut, own: OwnJob) -> Dag:
    """The graph; where it cannot be read, no job of its nodes is left."""
    try:
        return _read(options, config, files, out)
    except UserError:
        # A run before may have submitted some, when the file was another.
        if own.id is not None:
            out.say("Removing any/all submitted HTCondor jobs...")
            await own.schedd.remove(f"DAGManJobId == {own.id.cluster}", UNREADABLE.format(options.primary))
        raise


def _read(options: Options, config: Config, files: Files, out: DagmanOut) -> Dag:
    """The graph, with what a rescue or save file adds to it."""
    out.say(f"Parsing {len(options.dags)} dagfiles", *(f"Parsing {file} ..." for file in options.dags), level=3)
    rescue = ""
    # A save file that is named wins over a rescue file that is merely there.
    if options.load_save:
        rescue = save_path(options.primary, options.load_save)
        out.say(f"Loading saved progress from {options.load_save} for DAG.")
    else:
        rescue = _rescue(options, config, files, out)
    return read(options.dags, _text, reading(options, config), rescue=rescue)


def _rescue(options: Options, config: Config, files: Files, out: DagmanOut) -> str:
    if options.rescue_file:
        said, path = "Rescue DAG file specified", options.rescue_file
        number = path.rpartition(".rescue")[2]
        files.rescue_number = int(number) if number.isdigit() else 0
        files.put_aside_after(files.rescue_number)
    elif options.do_rescue_from:
        files.rescue_number = options.do_rescue_from
        said, path = f"Rescue DAG number {files.rescue_number} specified", files.rescue(files.rescue_number)
        files.put_aside_after(files.rescue_number)
    else:
        auto = config.bool("DAGMAN_AUTO_RESCUE") if options.auto_rescue is None else bool(options.auto_rescue)
        files.rescue_number = files.last_rescue_before() if auto else 0
        if not files.rescue_number:
            return ""
        said, path = f"Found rescue DAG number {files.rescue_number}", files.rescue(files.rescue_number)
    several = "s" if files.several else ""
    out.say(
        f"{said}; running {path} in combination with normal DAG file{several}", "~" * 54, f"USING RESCUE DAG {path}"
    )
    return path


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _warn(options: Options, config: Config, dag: Dag, out: DagmanOut) -> None:
    """What is odd, but no mistake; and how large the graph is."""
    out.say(*(f"Warning: {odd.text}" for odd in dag.warnings))
    if options.submit_method == 0:
        out.say("Warning: -SubmitMethod 0 has no effect: nodes are submitted by condor_dagman itself")
    if options.csd_version and options.csd_version != CONDOR_VERSION and not options.allow_version_mismatch:
        out.say(f"Note: {options.csd_version} has written the submit file of this DAG; this is {CONDOR_VERSION}")
    _check_macros(dag, out, strict=config.int("DAGMAN_USE_STRICT") > 0)
    out.say(f"Dag contains {len(dag.nodes)} total nodes", level=3)


def _check_macros(dag: Dag, out: DagmanOut, *, strict: bool) -> None:
    """Words of scripts that look like macros and are none: `strict`, no node begins."""
    scripts = [(node, script) for node in dag.nodes for script in (node.pre, node.post, node.hold) if script]
    found = [(node, script, word) for node, script in scripts for word in unknown_macros(script)]
    for node, script, word in found:
        out.say(f"Warning: unrecognized macro {word} in node {node.name} {script.kind} script arguments")
    if found and strict:
        _, script, word = found[0]
        raise UserError(
            f"{script.place}: {script.kind} scripts have no macro {word} (DAGMAN_USE_STRICT = 0 lets it pass)"
        )


def _refused(config: Config, dag: Dag) -> str | None:
    """Why the graph does not run, though it could be read."""
    if dag.rejected is not None:
        return f"Exiting because of REJECT specification in {dag.rejected}."
    strict = config.int("DAGMAN_USE_STRICT")
    if found := [odd for odd in dag.warnings if odd.strictness <= strict]:
        return f"ERROR: Warning is fatal error because of DAGMAN_USE_STRICT setting: {found[0].text}"
    if config.bool("DAGMAN_STARTUP_CYCLE_DETECT") and (round := circles(dag)):
        names = " -> ".join(dag.nodes[number].name for number in (*round[0], round[0][0]))
        return f"ERROR: a cycle exists in the dag, please check input: {names}"
    return None


def _take(lock: Lock, dag_id: int, out: DagmanOut, path: str) -> int | None:
    """Hold the lock; the exit code where another run has it."""
    if lock.was_there:
        out.say(f"Lock file {path} detected", level=3)
    try:
        lock.take(dag_id)
    except Locked as held:
        if held.own:
            out.say(
                f"Lock file {path} is still held by this same DAGMan job (cluster {dag_id}); exiting to be requeued."
            )
            return ExitCode.RESTART
        out.say(
            "Aborting because it looks like another instance of DAGMan is currently running on this DAG; if that is "
            f"not the case, delete the lock file ({path}) and re-submit the DAG."
        )
        return ExitCode.ERROR
    return None


def _around(options: Options, config: Config, own: OwnJob, nodes_log: str, dag_id: int) -> Around:
    suppress = options.suppress_notification
    return Around(
        nodes_log=nodes_log,
        dag_id=dag_id,
        batch_name=options.batch_name or own.batch_name(options.primary),
        batch_id=own.batch_id(),
        accounting_group=own.ad.eval_str("AcctGroup") or "",
        accounting_user=own.ad.eval_str("AcctGroupUser") or "",
        suppress_notification=config.bool("DAGMAN_SUPPRESS_NOTIFICATION") if suppress is None else suppress,
        append_variables=config.bool("DAGMAN_DEFAULT_APPEND_VARS"),
        suppress_logs=config.bool("DAGMAN_SUPPRESS_JOB_LOGS"),
        hold_claim_s=config.int("DAGMAN_HOLD_CLAIM_TIME"),
        machine_attributes=config.str("DAGMAN_RECORD_MACHINE_ATTRS", default=""),
        inherited=inherited(
            own.ad,
            config.str("DAGMAN_INHERIT_ATTRS", default=""),
            config.str("DAGMAN_INHERIT_ATTRS_PREFIX", default=""),
        ),
        record_retry="retry" in config.str("DAGMAN_NODE_RECORD_INFO", default="").lower(),
    )
