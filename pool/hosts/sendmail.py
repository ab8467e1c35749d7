"""Hands a letter to the program that sends mail, which never has root's rights."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, Final

PATIENCE_S: Final = 60.0
PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
NOBODY_ID: Final = 65534


def send(
    sendmail: str, mail: str, to: Sequence[str], subject: str, body: str, sender: str = "", owner: str = ""
) -> str:
    """Send it by SENDMAIL where there is such a program, else by MAIL; what went wrong, or nothing.

    Where this process is root's, the program runs as the account `owner`, or as nobody where that is root or is not
    there. Without either program nobody is told, and nothing is wrong.
    """
    if any(recipient.startswith("-") for recipient in (*to, sender)):
        return "a recipient or sender that begins with - would be an option"
    if (found := shutil.which(sendmail) if sendmail else None) is not None:
        command = [found, "-oi", *(["-f", sender] if sender else []), "--", *to]
        heads = {**({"From": sender} if sender else {}), "To": ", ".join(to), "Subject": subject}
        # A line end in what a job says of itself begins no further header (RFC 5322, 2.2).
        text = "\n".join([*(f"{name}: {' '.join(said.split())}" for name, said in heads.items()), "", body])
    elif mail:
        command, text = [mail, "-s", subject, *(["-r", sender] if sender else []), *to], body
    else:
        return ""
    try:
        done = subprocess.run(
            command,
            input=text.encode(errors="replace"),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            **_as(owner),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else f"{command[0]} ended with status {done.returncode}"


def _as(owner: str) -> dict[str, Any]:
    """What makes the program another account's, with nothing of this process's environment."""
    if os.geteuid() != 0:
        return {}
    name, uid, gid, groups, home = "nobody", NOBODY_ID, NOBODY_ID, [NOBODY_ID], "/"
    for candidate in (owner, "nobody"):
        try:
            entry = pwd.getpwnam(candidate)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            name, uid, gid, home = candidate, entry.pw_uid, entry.pw_gid or NOBODY_ID, entry.pw_dir
            groups = sorted({*os.getgrouplist(name, gid)} - {0})
            break
    environment = {"PATH": PATH, "HOME": home, "USER": name, "LOGNAME": name}
    return {"user": uid, "group": gid, "extra_groups": groups, "cwd": "/", "env": environment}
