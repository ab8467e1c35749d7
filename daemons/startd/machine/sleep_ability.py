"""Whether this machine can be put to sleep, and woken: asked of the hibernation plug-in and of the network interface.

The pool's own plug-in (`daemons.libexec.power_state`) is asked without a process of its own; to set a state it is one,
so that a machine that does not wake as it should keeps nothing of the startd's.

Source: HTCondor's manual, "Startd Daemon Configuration Options" (HIBERNATION_PLUGIN) and "Machine ClassAd Attributes";
the kernel's ETHTOOL_GWOL, of include/uapi/linux/ethtool.h.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Any, Final

import psutil

from daemons.host.programs import ProgramError, run_blocking
from daemons.libexec import power_state
from pool.base.argv import BadQuoting, split_new
from pool.base.errors import PoolError, UserError
from pool.classad import parse_long
from pool.config import Config
from pool.power.states import SleepState, sleep_attributes, states_of
from pool.power.wake_on_lan import wake_attributes

ASKED_S: Final = 20.0
"""How long a plug-in may take to tell the states."""
_SIOCETHTOOL: Final = 0x8946
_GET_WAKE_ON_LAN: Final = 5
_NAME_BYTES: Final = 16
_PASSWORD_BYTES: Final = 6


@dataclass(frozen=True)
class SleepAbility:
    """`command` puts the machine into a state, whose name is added; `wakes`: a packet would wake it."""

    command: tuple[str, ...] = ()
    states: frozenset[SleepState] = frozenset()
    supported: int = 0
    enabled: int = 0
    problem: str = ""

    @property
    def wakes(self) -> bool:
        """Whether a packet would wake the machine."""
        return bool(wake_attributes(self.supported, self.enabled)["IsWakeAble"])

    def attributes(self) -> dict[str, Any]:
        """What the machine's ads say of it while it is awake."""
        return {**sleep_attributes(SleepState.NONE, self.states), **wake_attributes(self.supported, self.enabled)}

    def said(self) -> list[str]:
        """For the log."""
        return [f"This machine is not put to sleep: {self.problem}"] if self.problem else []


def find_ability(config: Config, ip: str) -> SleepAbility:
    """What the machine can; `ip` is the address by which the pool knows it. Blocks."""
    supported, enabled = wake_on_lan(ip)
    try:
        command, states = _plugin(config)
    except PoolError as error:
        return SleepAbility((), frozenset(), supported, enabled, str(error))
    return SleepAbility(command, states, supported, enabled)


def _plugin(config: Config) -> tuple[tuple[str, ...], frozenset[SleepState]]:
    """The command that sets a state, without its name, and the states that there are; PoolError says what is wrong."""
    path = config.path("HIBERNATION_PLUGIN")
    words = _words(config)
    if config.is_set("HIBERNATION_PLUGIN") or os.access(path, os.X_OK):
        return (path, *words, "set"), _told(path, words)
    if method := config.str("LINUX_HIBERNATION_METHOD", default=""):
        words = [*words, "-m", method]
    order = power_state.asked([*words, "ad"])
    own = (sys.executable, "-m", power_state.__name__)
    return (*own, *words, "set"), power_state.find(order.machine, order.method).states


def _words(config: Config) -> list[str]:
    text = config.str("HIBERNATION_PLUGIN_ARGS", default="")
    try:
        return split_new(text)
    except BadQuoting as error:
        raise config.error("HIBERNATION_PLUGIN_ARGS", f"HIBERNATION_PLUGIN_ARGS = {text}: {error.message}") from None


def _told(path: str, words: list[str]) -> frozenset[SleepState]:
    """The states that a site's plug-in tells."""
    done = run_blocking([path, *words, "ad"], ASKED_S)
    if done.status != 0:
        raise ProgramError(f"{path} ad {done}: {done.stderr.strip() or 'it says nothing'}")
    listed = parse_long(done.stdout).eval_str("HibernationSupportedStates")
    if listed is None:
        raise UserError(f"{path} ad tells no HibernationSupportedStates", expected='a list such as "S3,S5"')
    return states_of(listed)


def wake_on_lan(ip: str) -> tuple[int, int]:
    """The flags of what the interface of this address can be woken by, and of what it is set to; 0 where none can tell.

    The kernel tells root alone.
    """
    name = next((name for name, has in psutil.net_if_addrs().items() if any(one.address == ip for one in has)), "")
    if not name:
        return 0, 0
    answer = array.array("B", struct.pack(f"III{_PASSWORD_BYTES}s", _GET_WAKE_ON_LAN, 0, 0, b""))
    where, _ = answer.buffer_info()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            fcntl.ioctl(asked, _SIOCETHTOOL, struct.pack(f"{_NAME_BYTES}sP", name.encode(), where))
    except OSError:  # an interface without the means, as that of loopback, or nobody who may ask
        return 0, 0
    _, supported, enabled = struct.unpack_from("III", answer)
    return supported, enabled
