"""What the configuration makes of the language of expressions: functions, user maps, homes of accounts, its mode.

`load` brings in the functions, which may fail; `install` puts the rest into the process's environment of evaluation.
Daemons do both at their start and at each reconfiguration, tools once they have read the configuration. The mode is
set once: what has been read in one mode may not be right in the other.
"""

from __future__ import annotations

from collections.abc import Callable

from pool.classad.values import environment
from pool.config.config import Config

Home = Callable[[str], "str | None"]


def load(config: Config) -> None:
    """The functions of CLASSAD_USER_PYTHON_MODULES; ConfigError when there is one that cannot be had.

    Libraries for HTCondor's own interface (CLASSAD_USER_LIBS) cannot be loaded. Functions stay until the process ends.
    """
    if libraries := config.str("CLASSAD_USER_LIBS", default=""):
        raise config.error(
            "CLASSAD_USER_LIBS",
            f"CLASSAD_USER_LIBS = {libraries}: libraries cannot be loaded; write their functions in Python, in a module"
            " that CLASSAD_USER_PYTHON_MODULES names (pool.classad.extend.example_functions shows how)",
        )
    names = config.list("CLASSAD_USER_PYTHON_MODULES", default=[])
    if not names:
        return
    from pool.classad.extend.user import load_modules  # few pools have functions of their own

    for problem in load_modules(names):
        raise config.error("CLASSAD_USER_PYTHON_MODULES", problem)


def set_mode(config: Config) -> None:
    """STRICT_CLASSAD_EVALUATION, before anything is read or evaluated that does not come from the program itself."""
    environment.install(strict=config.bool("STRICT_CLASSAD_EVALUATION"))


def install(config: Config, subsystem: str, home: Home) -> tuple[str, ...]:
    """All but the functions, as `subsystem` has it; what of it cannot be read, for the log.

    `home` finds the home of an account, where CLASSAD_ENABLE_USER_HOME lets expressions ask.
    """
    # Never left unset: after a reconfiguration that forbids it the old permission must not last.
    environment.install(user_home=home if config.bool("CLASSAD_ENABLE_USER_HOME") else _nowhere)
    if not (config.list("CLASSAD_USER_MAP_NAMES") or config.list(f"{subsystem}_CLASSAD_USER_MAP_NAMES", default=[])):
        environment.install(user_maps={})
        return ()
    from pool.config.user_maps import user_maps  # and few have maps

    maps = user_maps(config, subsystem)
    environment.install(user_maps=maps.found)
    return maps.ignored


def _nowhere(_name: str) -> None:
    """What is known of homes while nobody may ask."""
