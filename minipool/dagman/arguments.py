"""The command line of condor_dagman, as condor_submit_dag writes it. Source: HTCondor's man page condor_dagman."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pool.base.errors import UserError

_WORDS: Final[Mapping[str, str]] = {
    "-batch-name": "batch_name", "-csdversion": "csd_version", "-dag": "dags", "-dagman": "dagman",
    "-lockfile": "lock_file", "-rescuefile": "rescue_file", "-load_save": "load_save",
    "-include_env": "include_env", "-insert_env": "insert_env", "-notification": "notification",
    "-outfile_dir": "outfile_dir",
}  # fmt: skip
_NUMBERS: Final[Mapping[str, str]] = {
    "-debug": "debug", "-priority": "priority", "-autorescue": "auto_rescue", "-dorescuefrom": "do_rescue_from",
    "-maxidle": "max_idle", "-maxjobs": "max_jobs", "-maxpre": "max_pre", "-maxpost": "max_post",
    "-maxhold": "max_hold", "-submitmethod": "submit_method",
}  # fmt: skip
_FLAGS: Final[Mapping[str, tuple[str, bool]]] = {
    "-allowversionmismatch": ("allow_version_mismatch", True), "-dot": ("only_dot", True),
    "-dryrun": ("dry_run", True), "-usedagdir": ("use_dag_dir", True), "-alwaysrunpost": ("always_run_post", True),
    "-dontalwaysrunpost": ("always_run_post", False), "-suppress_notification": ("suppress_notification", True),
    "-dont_suppress_notification": ("suppress_notification", False), "-dorecovery": ("do_recovery", True),
    "-force": ("force", True), "-import_env": ("import_env", True), "-update_submit": ("update_submit", True),
    "-verbose": ("verbose", True), "-setuponly": ("setup_only", True),
}  # fmt: skip
_REFUSED: Final[Mapping[str, str]] = {
    "-waitfordebug": "no debugger can be waited for",
}


@dataclass
class Options:
    """What was asked for; None where the configuration decides."""

    dags: list[str] = field(default_factory=list)
    batch_name: str = ""
    csd_version: str = ""
    dagman: str = ""
    lock_file: str = ""
    rescue_file: str = ""
    load_save: str = ""
    include_env: str = ""
    insert_env: str = ""
    notification: str = ""
    outfile_dir: str = ""
    debug: int | None = None
    priority: int = 0
    auto_rescue: int | None = None
    do_rescue_from: int = 0
    max_idle: int | None = None
    max_jobs: int | None = None
    max_pre: int | None = None
    max_post: int | None = None
    max_hold: int | None = None
    submit_method: int = 1
    allow_version_mismatch: bool = False
    only_dot: bool = False
    dry_run: bool = False
    use_dag_dir: bool = False
    always_run_post: bool | None = None
    suppress_notification: bool | None = None
    do_recovery: bool = False
    force: bool = False
    import_env: bool = False
    update_submit: bool = False
    verbose: bool = False
    setup_only: bool = False
    asks: str = ""
    """`help` or `version`."""

    @property
    def primary(self) -> str:
        """The DAG file after which the other files are named."""
        return self.dags[0]

    def for_nested(self) -> list[str]:
        """The options that condor_submit_dag gets for a nested graph."""
        words: list[str] = []
        for name, option in (("import_env", "-import_env"), ("verbose", "-verbose"), ("force", "-force")):
            words += [option] if getattr(self, name) else []
        for name in ("include_env", "insert_env", "notification", "outfile_dir", "dagman"):
            words += [f"-{name}", getattr(self, name)] if getattr(self, name) else []
        words += ["-UseDagDir"] if self.use_dag_dir else []
        words += ["-suppress_notification"] if self.suppress_notification else []
        words += ["-AllowVersionMismatch"] if self.allow_version_mismatch else []
        words += ["-AutoRescue", str(self.auto_rescue)] if self.auto_rescue is not None else []
        words += ["-DoRescueFrom", str(self.do_rescue_from)] if self.do_rescue_from else []
        return words


def parse(words: Sequence[str]) -> Options:
    """The options of these words; UserError says which of them is wrong, and how."""
    found, left = Options(), own_words(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            found.dags.append(word)
        else:
            _option(found, word, left)
    if not found.dags and not found.asks:
        raise UserError("No DAG file was specified")
    for option, name in _NUMBERS.items():
        if option.startswith("-max") and (getattr(found, name) or 0) < 0:
            raise UserError(f"{option} must be non-negative")
    if found.do_rescue_from < 0:
        raise UserError("-DoRescueFrom must be non-negative")
    if found.submit_method not in (0, 1):
        raise UserError("-SubmitMethod must be 0 or 1")
    return found


def own_words(words: Sequence[str]) -> list[str]:
    """The words without those for HTCondor's daemons: a port, which is not opened, and the logs' directory."""
    found, left = [], list(words)
    while left:
        word = left.pop(0)
        if word in ("-p", "-l"):
            _value(word, left)
        elif word not in ("-f", "-t"):
            found.append(word)
    return found


def _option(found: Options, word: str, left: list[str]) -> None:
    name = _full_name(word)
    if name in ("-help", "-version"):
        found.asks = name[1:]
    elif name in _FLAGS:
        setattr(found, *_FLAGS[name])
    elif name == "-dag":
        found.dags.append(_value(word, left))
    elif name in _WORDS:
        setattr(found, _WORDS[name], _value(word, left))
    elif name in _NUMBERS:
        setattr(found, _NUMBERS[name], _number(word, _value(word, left)))
    else:
        raise UserError(f"{word} is refused: {_REFUSED[name]}")


def _full_name(word: str) -> str:
    """The option that the word begins; the first of several, as condor_dagman takes them."""
    known = [*_WORDS, *_NUMBERS, *_FLAGS, *_REFUSED, "-help", "-version"]
    lower = word.lower()
    if lower in known:
        return lower
    # As short as the user likes, and as condor_submit_dag writes `-DoRecov`.
    begun = [name for name in known if name.startswith(lower)]
    if not begun or len(lower) < 3:
        from pool.base.nearest import nearest_name

        near = nearest_name(lower, known)
        hint = f" (did you mean {near}?)" if near else ""
        raise UserError(f"{word} is not an option of condor_dagman{hint}")
    return begun[0]


def _value(word: str, left: list[str]) -> str:
    if not left:
        raise UserError(f"{word} needs a value")
    return left.pop(0)


def _number(word: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UserError(f"{word} needs a number, not {text!r}") from None
