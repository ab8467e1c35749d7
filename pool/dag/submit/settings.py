"""What condor_submit_dag was asked for, and how the files of a run are called."""

import os.path
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

LIMITS: Final = ("-MaxIdle", "-MaxJobs", "-MaxPre", "-MaxPost", "-MaxHold")
"""The limits of a run that are options."""


class Passed(NamedTuple):
    """What DAGMan is told, and condor_submit_dag of each nested graph in turn."""

    verbose: bool = False
    notification: str = ""
    dagman: str = ""
    use_dag_dir: bool = False
    outfile_dir: str = ""
    auto_rescue: int = 1
    do_rescue_from: int = 0
    allow_version_mismatch: bool = False
    import_env: bool = False
    include_env: tuple[str, ...] = ()
    insert_env: tuple[str, ...] = ()
    recurse: bool = False
    suppress_notification: bool | None = None
    submit_method: int | None = None

    def words(self) -> Iterator[str]:
        """These settings as options, in HTCondor's order."""
        yield from ("-verbose",) if self.verbose else ()
        if self.notification:
            # Mail about nested graphs is mail of the graph's jobs, which -suppress_notification silences.
            yield from ("-notification", "never" if self.suppress_notification else self.notification)
        yield from ("-dagman", self.dagman) if self.dagman else ()
        yield from ("-UseDagDir",) if self.use_dag_dir else ()
        yield from ("-outfile_dir", self.outfile_dir) if self.outfile_dir else ()
        yield from ("-AutoRescue", str(self.auto_rescue))
        yield from ("-DoRescueFrom", str(self.do_rescue_from)) if self.do_rescue_from else ()
        yield from ("-AllowVersionMismatch",) if self.allow_version_mismatch else ()
        yield from ("-import_env",) if self.import_env else ()
        for names in self.include_env:
            yield from ("-include_env", names)
        for pairs in self.insert_env:
            yield from ("-insert_env", pairs)
        yield from ("-do_recurse",) if self.recurse else ()
        if self.suppress_notification is not None:
            yield "-suppress_notification" if self.suppress_notification else "-dont_suppress_notification"
        yield from ("-SubmitMethod", str(self.submit_method)) if self.submit_method is not None else ()


class SubmitDag(NamedTuple):
    """All that one condor_submit_dag does."""

    dag_files: tuple[str, ...]
    passed: Passed = Passed()
    force: bool = False
    update_submit: bool = False
    submits: bool = True
    batch_name: str = ""
    batch_id: str = ""
    debug: int | None = None
    limits: Mapping[str, int] = {}
    """What was given of LIMITS."""
    always_run_post: bool | None = None
    do_recovery: bool = False
    priority: int = 0
    load_save: str = ""
    rescue_file: str = ""
    lock_file: str = ""
    config: str = ""
    append: tuple[str, ...] = ()

    @property
    def primary(self) -> str:
        """The DAG file that the others go with, and after which the run's files are called."""
        return self.dag_files[0]

    @property
    def starts_over(self) -> bool:
        """Whether the graph is to run from its beginning, so that files of an earlier run are in the way."""
        resumes = self.passed.do_rescue_from or self.rescue_file or self.load_save
        return not resumes and not self.update_submit

    def throttles(self) -> Iterator[tuple[str, int]]:
        """The limits that were given, in their order; one below zero is none."""
        return ((option, self.limits[option]) for option in LIMITS if self.limits.get(option, -1) >= 0)


class Names(NamedTuple):
    """The files of a run."""

    submit: str
    out: str
    lib_out: str
    lib_err: str
    log: str
    lock: str
    halt: str
    metrics: str


def names(primary: str, outfile_dir: str = "") -> Names:
    """How the files of a run of this graph are called."""
    out = os.path.join(outfile_dir, os.path.basename(primary)) if outfile_dir else primary
    return Names(
        submit=f"{primary}.condor.sub",
        out=f"{out}.dagman.out",
        lib_out=f"{primary}.lib.out",
        lib_err=f"{primary}.lib.err",
        log=f"{primary}.dagman.log",
        lock=f"{primary}.lock",
        halt=f"{primary}.halt",
        metrics=f"{primary}.metrics",
    )


def rescue_base(primary: str, *, several: bool) -> str:
    """What the names of all rescue files of a graph begin with; `several`: of more than one DAG file."""
    return f"{primary}{'_multi' if several else ''}.rescue"


def rescue_name(primary: str, number: int, *, several: bool) -> str:
    """The rescue file of this number."""
    return f"{rescue_base(primary, several=several)}{number:03}"


def rescue_number(path: str, primary: str, *, several: bool) -> int:
    """The number in a rescue file's name; 0 when it is not called like one of this graph."""
    digits = path.removeprefix(rescue_base(primary, several=several))
    return int(digits) if digits != path and digits.isdecimal() else 0
