"""What an earlier run of a graph left, before condor_submit_dag writes anew: put aside, gone on from, or in the way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from pool.base.errors import SubmitError
from pool.dag.submit.settings import rescue_base, rescue_name

if TYPE_CHECKING:
    from pool.config import Config
    from pool.dag.submit.settings import Names, SubmitDag


def clear_the_way(asked: SubmitDag, called: Names, config: Config, say: Callable[[str], object]) -> bool:
    """Whether the description may be written; what is in the way is said. `say`: for what is no error."""
    passed, several = asked.passed, len(asked.dag_files) > 1
    most = config.int("DAGMAN_MAX_RESCUE_NUM")
    if passed.do_rescue_from:
        file = rescue_name(asked.primary, passed.do_rescue_from, several=several)
        if not os.path.exists(file):
            sys.stderr.write(
                f"ERROR: -dorescuefrom {passed.do_rescue_from} specified, but rescue DAG file {file} does not exist!\n"
            )
            return False
    _remove(called.halt)
    if asked.force:
        for file in (called.submit, called.log, called.lib_out, called.lib_err):
            _remove(file)
        rename_rescue_files(asked.primary, 0, most, several=several, say=say)
    rescue = newest_rescue(asked.primary, most, several=several, say=say) if passed.auto_rescue else 0
    if rescue:
        say(f"Running rescue DAG {rescue}\n")
    bad = False
    if asked.starts_over and not rescue:
        for file in (called.submit, called.lib_out, called.lib_err, called.log):
            if os.path.exists(file):
                sys.stderr.write(f'ERROR: "{file}" already exists.\n')
                bad = True
    old_style = rescue_base(asked.primary, several=several)
    if not passed.auto_rescue and not passed.do_rescue_from and os.path.exists(old_style):
        _say_old_style(os.path.abspath(old_style) if passed.use_dag_dir else old_style, asked.primary)
        bad = True
    if bad:
        sys.stderr.write(
            "\nSome file(s) needed by condor_dagman already exist. Either:\n- Rename them\n"
            '- Use the "-f" option to force them to be overwritten\n\tor\n'
            '- Use the "-update_submit" option to update the submit file and continue.\n'
        )
    return not bad


def newest_rescue(primary: str, most: int, *, several: bool, say: Callable[[str], object]) -> int:
    """The number of the newest rescue file; 0 when there is none."""
    newest = 0
    for number in range(1, most + 1):
        if os.path.exists(rescue_name(primary, number, several=several)):
            if number > newest + 1:
                say(f"Warning: Found rescue DAG number {number}, but not rescue DAG number {number - 1}\n")
            newest = number
    if newest >= most:
        say(f"Warning: Hit maximum rescue DAG number: {most}\n")
    return newest


def rename_rescue_files(primary: str, after: int, most: int, *, several: bool, say: Callable[[str], object]) -> None:
    """Put aside the rescue files with higher numbers than `after`, as `.old`."""
    sys.stderr.write(f"Renaming rescue DAGs newer than number {after}\n")
    for number in range(after + 1, newest_rescue(primary, most, several=several, say=say) + 1):
        file = rescue_name(primary, number, several=several)
        if not os.path.exists(file):
            continue
        sys.stderr.write(f"Renaming {file}\n")
        try:
            os.replace(file, f"{file}.old")
        except OSError as error:
            raise SubmitError(f"Fatal error: unable to rename old rescue file {file}: {error.strerror}") from None


def _remove(file: str) -> None:
    try:
        os.unlink(file)
    except FileNotFoundError:
        pass
    except OSError as error:
        sys.stderr.write(f"ERROR: Failed to unlink file {file} ({error.errno}): {error.strerror}\n")


def _say_old_style(file: str, primary: str) -> None:
    sys.stderr.write(
        f'ERROR: "{file}" already exists.\n'
        f'\tYou may want to resubmit your DAG using that file, instead of "{primary}"\n'
        "\tLook at the HTCondor manual for details about DAG rescue files.\n"
        f'\tPlease investigate and either remove "{file}",\n'
        "\tor use it as the input to condor_submit_dag.\n"
    )
