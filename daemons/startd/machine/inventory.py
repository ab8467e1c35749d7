"""Takes stock of custom resources at start: runs MACHINE_RESOURCE_INVENTORY_<name> programs, and looks for GPUs.

condor_gpu_discovery is a part of this very program; where it is not installed as a file of its own, and for the
look that every startd takes by itself (STARTD_DETECT_GPUS), it is asked without starting a process; but for HIP and
OpenCL, whose libraries shall not bring a startd down. What they do to the look that nobody asked for is said in the
machine's ads (condor_gpu_discovery_error), and there are no GPUs then.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from daemons.host.programs import ProgramError, run_blocking
from pool.base.errors import ConfigError, UserError
from pool.classad import ClassAd
from pool.config import Config
from pool.gpus.discover import DiscoveryOptions, GpuLibraries, discover, parse_options
from pool.gpus.vendors import may_be_there
from pool.slots.provision.inventory import Inventory, read_inventory

PREFIX: Final = "MACHINE_RESOURCE_INVENTORY_"
DISCOVERY: Final = "condor_gpu_discovery"
DISCOVERY_ERROR: Final = "condor_gpu_discovery_error"
LIMIT_S: Final = 20.0
"""How long a program may take; HTCondor's default for programs that a startd waits for."""
_OFF: Final = frozenset(("", "0", "false", "f", "no"))


def take_stock(config: Config, limit_s: float = LIMIT_S) -> dict[str, Inventory]:
    """What each program says there is, by resource. Blocks; ConfigError names the knob and what went wrong."""
    found = {}
    for knob in config.names(with_defaults=False):
        if knob.upper().startswith(PREFIX) and (command := config[knob]):
            found[knob[len(PREFIX) :]] = _stock(config, knob, command, limit_s)
    if not any(name.lower() == "gpus" for name in found) and not config.is_set("MACHINE_RESOURCE_GPUs"):
        words = config.str("STARTD_DETECT_GPUS", default="").strip()
        if words.lower() not in _OFF:
            found["GPUs"] = _own_look(shlex.split(words), limit_s)
    return found


def _stock(config: Config, knob: str, command: str, limit_s: float) -> Inventory:
    name = knob[len(PREFIX) :]
    try:
        argv = shlex.split(command.strip().strip('"'))
    except ValueError as error:
        raise ConfigError(f"{knob} = {command}: {error} ({config.where(knob)})") from None
    if os.path.basename(argv[0]) == DISCOVERY and not os.access(argv[0], os.X_OK):
        return read_inventory(name, _discovered(knob, argv[1:], limit_s))
    try:
        return read_inventory(name, _printed(knob, argv, limit_s))
    except ConfigError as error:
        raise ConfigError(f"{error} ({config.where(knob)})") from None


def _own_look(words: Sequence[str], limit_s: float) -> Inventory:
    knob = "STARTD_DETECT_GPUS"
    options = _options(knob, words)  # which have to be right; the rest is not the owner's doing
    try:
        return read_inventory("GPUs", _looked(knob, words, options, limit_s))
    except ConfigError as error:
        said = ClassAd({DISCOVERY_ERROR: error.message}).text(DISCOVERY_ERROR)
        return read_inventory("GPUs", f"DetectedGPUs=0\n{DISCOVERY_ERROR}={said}")


def _discovered(knob: str, words: Sequence[str], limit_s: float) -> str:
    return _looked(knob, words, _options(knob, words), limit_s)


def _options(knob: str, words: Sequence[str]) -> DiscoveryOptions:
    try:
        return parse_options(words)
    except UserError as error:
        raise ConfigError(f"{knob} = {' '.join(words)}: {error.message}") from None


def _looked(knob: str, words: Sequence[str], options: DiscoveryOptions, limit_s: float) -> str:
    """What there is: asked here, or in a process of its own where a vendor's library may be loaded."""
    # A vendor's library may crash or hang whoever loads it.
    if options.simulate is None and may_be_there():
        return _printed(
            knob, [sys.executable, "-m", "daemons.libexec.gpu_discovery", *words], limit_s, called=DISCOVERY
        )
    try:
        return "\n".join(discover(options, GpuLibraries(), os.environ))
    except UserError as error:
        raise ConfigError(f"{knob} = {' '.join(words)}: {error.message}") from None


def _printed(knob: str, argv: Sequence[str], limit_s: float, called: str = "") -> str:
    """What the program prints; when its time is over, all that it started is killed with it."""
    program = called or argv[0]
    try:
        end = run_blocking(argv, limit_s)
    except ProgramError as error:
        raise ConfigError(f"{knob}: {error}") from None
    if end.timed_out:
        raise ConfigError(f"{knob}: {program} did not end within {limit_s:g} s")
    if end.status:
        how = f"signal {-end.status}" if end.status < 0 else f"status {end.status}"
        says = end.stderr[:400].strip()
        raise ConfigError(f"{knob}: {program} ended with {how}{f': {says}' if says else ''}")
    return end.stdout
