"""condor_submit_dag: make a graph's description a job of the scheduler universe that sees the whole graph through.

What is in its way is said before anything is written; the file that it writes is `pool/dag/submit/condor_sub.py`.
HTCondor's manual: man-pages/condor_submit_dag.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.options import MissingValue, Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, refused, run
from pool.base.errors import SubmitError

if TYPE_CHECKING:
    from minipool.client.session import Session
    from pool.dag.submit.first_look import FirstLook
    from pool.dag.submit.settings import Names, SubmitDag

TOOL: Final = Tool(
    "condor_submit_dag",
    "Queue a job that runs a graph of jobs.",
    "[options] dag_file [dag_file_2 ... dag_file_n]",
    (
        HELP._replace(least=1),
        VERSION_OPT._replace(least=4),
        Opt("append a", (2, 1), 1, "COMMAND", "add a line to the description of DAGMan's job; may be repeated"),
        Opt("allowversionmismatch", 2, says="let condor_dagman be of another version than the description"),
        Opt("alwaysrunpost", 2, says="run POST scripts also after a PRE script that failed"),
        Opt("autorescue", 2, 1, "0|1", "whether to go on from the newest rescue file, if there is one (1)"),
        Opt("batch-name", 1, 1, "NAME", "the name under which condor_q shows the graph"),
        Opt("config", 1, 1, "FILE", "a configuration file for this DAGMan"),
        Opt("dagman", 4, 1, "PATH", "another condor_dagman"),
        Opt("debug", 2, 1, "LEVEL", "how much DAGMan writes into its log: 0 to 7"),
        Opt("do_recurse", 2, says="write the descriptions of nested graphs too"),
        Opt("dont_suppress_notification", 3, says="let jobs of the graph send mail that they ask for"),
        Opt("dontalwaysrunpost", 5, says="run no POST script after a PRE script that failed"),
        Opt("dorecovery", 3, says="take up the graph where its nodes' log ends"),
        Opt("dorescuefrom", 5, 1, "N", "go on from the rescue file of this number"),
        Opt("force f", (1, 1), says="begin anew: replace the files of an earlier run, put its rescue files aside"),
        Opt("import_env", 1, says="give DAGMan this environment"),
        Opt("include_env", 2, 1, "A,B", "give DAGMan these variables of the environment"),
        Opt("insert_env", 3, 1, "A=1;B=2", "set variables for DAGMan"),
        Opt("insert_sub_file", 8, 1, "FILE", "add the lines of this file to the description of DAGMan's job"),
        Opt("load_save", 1, 1, "FILE", "go on from this save point"),
        Opt("lockfile", 3, 1, "FILE", "the file that keeps a second DAGMan from the same graph"),
        Opt("maxhold", 1, 1, "N", "how many HOLD scripts run at once"),
        Opt("maxidle", 4, 1, "N", "submit nothing while this many jobs are idle"),
        Opt("maxjobs", 4, 1, "N", "how many nodes may be in the queue at once"),
        Opt("maxpost", 4, 1, "N", "how many POST scripts run at once"),
        Opt("maxpre", 5, 1, "N", "how many PRE scripts run at once"),
        Opt("no_recurse", 1, says="leave nested graphs to DAGMan (the default)"),
        Opt("no_submit", 4, says="write the description, and submit nothing"),
        Opt("notification", 3, 1, "WHEN", "when to mail about DAGMan's job"),
        Opt("outfile_dir", 1, 1, "DIR", "the directory of the .dagman.out file"),
        Opt("priority", 1, 1, "N", "the least priority of the graph's jobs"),
        Opt("remote r", (2, 1), 1, "NAME", "the schedd of this name"),
        Opt("rescuefile", 3, 1, "FILE", "go on from this rescue file"),
        Opt("submitmethod", 2, 1, "0|1", "0: DAGMan runs condor_submit for each node; 1: it asks the schedd itself"),
        Opt("suppress_notification", 3, says="no job of the graph sends mail"),
        Opt("terse", 1, says="print only the id of DAGMan's job"),
        Opt("update_submit", 1, says="replace an existing description; its limits stay"),
        Opt("usedagdir", 2, says="run each graph in the directory of its file"),
        Opt("verbose v", (2, 1), says="show the line of a DAG file that an error is about"),
        *refused("valgrind", "DAGMan is a program in Python here, of which valgrind shows nothing", 2),
        *refused(
            "schedd-address-file schedd-daemon-ad-file", "there are no such files; -remote NAME names a schedd", 1
        ),
    ),
    unknown="Error: Unknown flag '{}' provided",
    usage_on_stdout=True,
    missing="Error: Option {} requires an additional argument",
)

RULE: Final = "-" * 71
_EXCLUSIVE: Final = (
    ("dorecovery", "load_save"),
    ("dorescuefrom", "load_save"),
    ("dorescuefrom", "rescuefile"),
    ("rescuefile", "load_save"),
    ("do_recurse", "no_recurse"),
    ("alwaysrunpost", "dontalwaysrunpost"),
    ("suppress_notification", "dont_suppress_notification"),
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_submit_dag."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from minipool.cli.dag_tools.asked import read_settings

    if any(one.after for one in parsed.given) and parsed.words:
        raise UsageError("ERROR: no arguments allowed after DAG file name(s)")
    if not parsed.words:
        raise UsageError("ERROR: no dag file specified; aborting.")
    for one, other in _EXCLUSIVE:
        if parsed.has(one) and parsed.has(other):
            raise MissingValue(f"Error: -{one} can not be used with the following flag: -{other}")
    from minipool.cli.entry.context import open_session

    session = open_session(parsed)
    return Run(session, read_settings(parsed, session.config), parsed).run()


class Run:
    """One call of condor_submit_dag."""

    def __init__(self, session: Session, asked: SubmitDag, parsed: Parsed) -> None:
        from pool.dag.submit.settings import names

        self.session = session
        self.asked = asked
        self.parsed = parsed
        self._said: list[str] = []
        self.names: Names = names(asked.primary, asked.passed.outfile_dir)

    def run(self) -> int:
        """Read, check, write and submit."""
        try:
            return self._run()
        finally:
            sys.stdout.write("".join(self._said))
            sys.stdout.flush()

    def _run(self) -> int:
        from minipool.cli.dag_tools.clearing import clear_the_way

        looks = [self._look(file) for file in self.asked.dag_files]
        if self.asked.passed.recurse and not self._recurse(looks):
            sys.stderr.write("Recursive submit(s) failed; exiting without attempting top-level submit\n")
            return 1
        asked = self._with_files(looks)
        if not clear_the_way(asked, self.names, self.session.config, self._say):
            return 1
        self._write(asked, [line for look in looks for line in look.attributes])
        return self._submit(asked)

    def _say(self, line: str) -> None:
        if self.parsed.has("terse"):
            return
        # What condor_submit prints stands before all of this where no terminal reads it: HTCondor's tool keeps its own
        # lines in a buffer meanwhile, and programs that read both are used to that order.
        if sys.stdout.isatty():
            sys.stdout.write(line)
        else:
            self._said.append(line)

    def _look(self, file: str) -> FirstLook:
        from pool.dag.submit.first_look import first_look

        if not os.path.exists(file):
            raise SubmitError(f"ERROR: {file}: Provided file path does not exist")
        if not os.path.isfile(file):
            raise SubmitError(f"ERROR: {file}: Provided file path is not a file")
        try:
            with open(file, encoding="utf-8", errors="surrogateescape") as text:
                return first_look(text.read(), file)
        except OSError as error:
            raise SubmitError(f"ERROR: {file}: {error.strerror}") from None
        except SubmitError as error:
            raise SubmitError(f"ERROR: {error}{self._shown(str(error))}") from None

    def _shown(self, error: str) -> str:
        """With -verbose the line that an error is about."""
        file, _, rest = error.partition(":")
        number = rest.split(" ", 1)[0]
        if not self.asked.passed.verbose or not number.isdecimal():
            return ""
        with open(file, encoding="utf-8", errors="surrogateescape") as text:
            line = next((line for at, line in enumerate(text, 1) if at == int(number)), "")
        return f"\n    {line.strip()}"

    def _with_files(self, looks: Sequence[FirstLook]) -> SubmitDag:
        """What was asked for, with what the DAG files and the description that is replaced add to it."""
        from minipool.cli.dag_tools.asked import with_limits
        from minipool.cli.entry.context import open_session
        from pool.dag.submit.condor_sub import preserved

        asked = self.asked
        configs: set[str] = set()
        for file, look in zip(asked.dag_files, looks, strict=True):
            at = os.path.dirname(file) if asked.passed.use_dag_dir else ""
            configs.update(os.path.join(os.getcwd(), at, config) for config in look.configs)
        configs.update(filter(None, [asked.config]))
        if len(configs) > 1:
            raise SubmitError(f"ERROR: Conflicting DAGMan config files specified: {' and '.join(sorted(configs))}")
        config = next(iter(configs), "")
        if config and not os.access(config, os.R_OK):
            raise SubmitError(f"ERROR: Can't read DAGMan config file: {config}")
        if config:
            # DAGMan's configuration also says what its own job is to have.
            self.session = open_session(self.parsed, more=config)
        passed = asked.passed._replace(
            include_env=asked.passed.include_env + tuple(one for look in looks for one in look.get),
            insert_env=asked.passed.insert_env + tuple(one for look in looks for one in look.set),
        )
        asked = asked._replace(config=config, passed=passed)
        if asked.update_submit and os.path.exists(self.names.submit):
            with open(self.names.submit, encoding="utf-8", errors="surrogateescape") as text:
                asked = with_limits(asked, preserved(text.read()))
        return asked

    def _recurse(self, looks: Sequence[FirstLook]) -> bool:
        """Write the descriptions of nested graphs, the innermost first, each in the directory of its node."""
        done = [self._nested(nested.file, nested.directory) for look in looks for nested in look.nested]
        return all(done)

    def _nested(self, file: str, directory: str) -> bool:
        asked = self.asked
        words = ["-no_submit", "-update_submit", *(["-force"] if asked.force else [])]
        words += ["-Priority", str(asked.priority)] if asked.priority else []
        words += [*asked.passed.words(), file]
        self._say(f"Recursive submit command: <{' '.join(['condor_submit_dag', *words])}>\n")
        try:
            with contextlib.chdir(directory or "."):
                status = main("submit_dag", words)
        except OSError as error:
            sys.stderr.write(f"ERROR: Failed to change to node directory: {directory}: {error.strerror}\n")
            return False
        if status:
            sys.stderr.write(f"ERROR: condor_submit_dag -no_submit failed on DAG file {file}.\n")
        return not status

    def _write(self, asked: SubmitDag, attributes: Sequence[str]) -> None:
        from pool.base.version import CONDOR_VERSION
        from pool.dag.submit.condor_sub import ON_EXIT_REMOVE, Here, condor_sub

        config = self.session.config
        where = os.environ.get("POOL_DIR")
        here = Here(
            version=CONDOR_VERSION,
            environ=os.environ,
            getenv=config.str("DAGMAN_MANAGER_JOB_APPEND_GETENV", default=""),
            on_exit_remove=config.raw("DAGMAN_ON_EXIT_REMOVE") or ON_EXIT_REMOVE,
            environment={"POOL_DIR": os.path.abspath(where)} if where else {},
            inserted=list(self._inserted()),
            attributes=attributes,
        )
        text = condor_sub(asked, here)
        try:
            with open(self.names.submit, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        except OSError as error:
            raise SubmitError(f"ERROR: Unable to create submit file {self.names.submit}: {error.strerror}") from None

    def _inserted(self) -> Iterator[str]:
        configured = self.session.config.str("DAGMAN_INSERT_SUB_FILE", default="")
        file = self.parsed.value("insert_sub_file") or configured
        if configured and file != configured:
            self._say(
                f"Note: -insert_sub_file value ({file}) overriding DAGMAN_INSERT_SUB_FILE setting ({configured})\n"
            )
        if not file:
            return
        try:
            with open(file, encoding="utf-8", errors="surrogateescape") as text:
                yield from (line.strip() for line in text)
        except OSError:
            raise SubmitError(f"ERROR: Unable to read submit append file {file}") from None

    def _submit(self, asked: SubmitDag) -> int:
        called = self.names
        self._say(f"{RULE}\n")
        self._say(f"File for submitting this DAG to HTCondor           : {called.submit}\n")
        self._say(f"Log of DAGMan debugging messages                   : {called.out}\n")
        self._say(f"Log of HTCondor library output                     : {called.lib_out}\n")
        self._say(f"Log of HTCondor library error messages             : {called.lib_err}\n")
        self._say(f"Log of the life of condor_dagman itself            : {called.log}\n\n")
        if asked.submits and not self._queue():
            sys.stderr.write("ERROR: condor_submit failed; aborting.\n")
            return 1
        if not asked.submits:
            self._say("-no_submit given, not submitting DAG to HTCondor. You can do this with:\n")
            self._say(f'"condor_submit {called.submit}"\n')
        self._say(f"{RULE}\n")
        return 0

    def _queue(self) -> bool:
        """Whether condor_submit queued the job."""
        from minipool.cli.submit_tools import submit

        remote, terse = self.parsed.value("remote"), self.parsed.has("terse")
        words = [*(["-name", remote] if remote else []), *(["-terse"] if terse else []), self.names.submit]
        return submit.main("submit", words) == 0
