"""Where configuration is looked for, and what is known of the host before any file is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from pool.base.errors import ConfigError
from pool.base.version import arch

ROOT_DIR = "/var/lib/minipool"
SYSTEM_FILE = "/etc/minipool/config"


def home(environ: Mapping[str, str]) -> str:
    """The user's home directory, without asking the password file when HOME is set."""
    return environ.get("HOME") or os.path.expanduser("~")


def named_files(environ: Mapping[str, str]) -> list[str] | None:
    """The files to read of the place that CONDOR_CONFIG or POOL_DIR names, and no others; None when neither is set.

    What was named is read or refused: another pool never stands in for it.
    """
    given = environ.get("CONDOR_CONFIG")
    if given == "ONLY_ENV":
        return []
    if given:
        return [home(environ) + given[1:] if given.startswith("~/") else given]
    directory = environ.get("POOL_DIR")
    if not directory:
        return None
    own = os.path.join(directory, "config")
    # lexists: a link that leads nowhere is named and refused, never taken for a pool without a file.
    if os.path.lexists(own):
        return [own]
    if os.path.isdir(os.path.join(directory, "run")):  # a master was started there with all its settings as arguments
        return []
    raise ConfigError(f"POOL_DIR={directory} is not a pool's directory: it has no file named config")


def refuse_another(environ: Mapping[str, str], local_dir: str, source: str) -> None:
    """Raise ConfigError when what was read describes another pool than the one in POOL_DIR."""
    directory = environ.get("POOL_DIR")
    # The texts first: realpath looks at each part of a path on disk.
    if not directory or local_dir == directory or os.path.realpath(local_dir) == os.path.realpath(directory):
        return
    if environ.get("CONDOR_CONFIG"):
        raise ConfigError(
            f"CONDOR_CONFIG={environ['CONDOR_CONFIG']} and POOL_DIR={directory} name different pools: "
            f"LOCAL_DIR = {local_dir} ({source}). Unset one of them."
        )
    raise ConfigError(
        f"POOL_DIR={directory}, but its configuration describes the pool in another directory: "
        f"LOCAL_DIR = {local_dir} ({source})"
    )


def usual_files(environ: Mapping[str, str], uid: int) -> list[str]:
    """The configuration files that may exist where no place is named, the most wanted first."""
    files = []
    # Root's own directory is not asked: a pool of root's is the host's.
    if uid != 0:
        files.append(os.path.join(home(environ), ".minipool", "config"))
    return [*files, SYSTEM_FILE, os.path.join(ROOT_DIR, "config")]


def local_dir(environ: Mapping[str, str], uid: int, exists: Callable[[str], bool] = os.path.exists) -> str:
    """LOCAL_DIR where no file sets it: POOL_DIR, one's own directory, or root's pool when only that one exists."""
    if environ.get("POOL_DIR"):
        return os.path.abspath(environ["POOL_DIR"])
    if uid == 0:
        return ROOT_DIR
    own = os.path.join(home(environ), ".minipool")
    if not exists(own) and exists(os.path.join(ROOT_DIR, "run")):
        return ROOT_DIR
    return own


class HostFacts:
    """What `$(HOSTNAME)`, `$(DETECTED_CPUS)` and their kin stand for; each is found out when it is first asked for."""

    __slots__ = ("_environ", "_given", "_known")

    def __init__(self, environ: Mapping[str, str], given: Mapping[str, str]) -> None:
        self._environ = environ
        self._given = {name.upper(): value for name, value in given.items()}
        self._known: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        key = name.upper()
        if key in self._given:
            return self._given[key]
        # Found out when asked: several of these read files or load libraries, and a tool needs two or three of them.
        if key not in self._known:
            finder = _FINDERS.get(key)
            if finder is None:
                return None
            self._known[key] = finder(self._environ)
        return self._known[key]

    def names(self) -> list[str]:
        return sorted({*_FINDERS, *self._given})


def _account(_: Mapping[str, str]) -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _cpus_limit(_: Mapping[str, str]) -> str:
    from pool.slots.provision.limits import cpus_allowed

    return str(cpus_allowed())


def _physical_cpus(_: Mapping[str, str]) -> str:
    from pool.slots.provision.detect import hardware_facts  # which imports psutil: seldom asked for

    return str(hardware_facts(hyperthreads=False).cpus_total)


def _memory(_: Mapping[str, str]) -> str:
    return str(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20)


def _os_release() -> dict[str, str]:
    try:
        with open("/etc/os-release", encoding="utf-8", errors="replace") as lines:
            pairs = (line.strip().partition("=") for line in lines)
            return {key: value.strip("\"'") for key, _, value in pairs}
    except OSError:
        return {}


def _os_version(_: Mapping[str, str]) -> str:
    return _os_release().get("VERSION_ID", "").partition(".")[0]


def _os_short_name(_: Mapping[str, str]) -> str:
    name = _os_release().get("ID", "linux")
    return {"almalinux": "AlmaLinux", "rocky": "Rocky", "opensuse-leap": "openSUSE"}.get(name, name.capitalize())


_FINDERS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "TILDE": home,
    "LOCAL_DIR": lambda environ: local_dir(environ, os.getuid()),
    "HOSTNAME": lambda _: os.uname().nodename.partition(".")[0],
    "FULL_HOSTNAME": lambda _: os.uname().nodename,
    "IP_ADDRESS": lambda _: "127.0.0.1",
    "IPV4_ADDRESS": lambda _: "127.0.0.1",
    # Unset where there is no such address, as the manual says.
    "IPV6_ADDRESS": lambda _: "",
    "USERNAME": _account,
    "REAL_UID": lambda _: str(os.getuid()),
    "REAL_GID": lambda _: str(os.getgid()),
    "PID": lambda _: str(os.getpid()),
    "PPID": lambda _: str(os.getppid()),
    "CONDORISADMIN": lambda _: "true" if os.getuid() == 0 else "false",
    "ISWINDOWS": lambda _: "false",
    "LINUX": lambda _: "true",
    "UNAME_ARCH": lambda _: os.uname().machine,
    "UNAME_OPSYS": lambda _: os.uname().sysname,
    "ARCH": lambda _: arch(os.uname().machine),
    "OPSYS": lambda _: os.uname().sysname.upper(),
    "OPSYSVER": lambda _: f"{_os_version(_)}00",
    "OPSYSMAJORVER": _os_version,
    "OPSYSNAME": _os_short_name,
    "OPSYSANDVER": lambda _: _os_short_name(_) + _os_version(_),
    "DETECTED_CPUS": lambda _: str(os.cpu_count() or 1),
    "DETECTED_CORES": lambda _: str(os.cpu_count() or 1),
    "DETECTED_PHYSICAL_CPUS": _physical_cpus,
    "DETECTED_CPUS_LIMIT": _cpus_limit,
    "DETECTED_MEMORY": _memory,
}
