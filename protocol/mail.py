"""Hands a letter to the program that sends mail."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

PATIENCE_S: Final = 60.0


def send(sendmail: str, mail: str, to: Sequence[str], subject: str, body: str, sender: str = "") -> str:
    """Send it by SENDMAIL where there is such a program, else by MAIL; what went wrong, or nothing.

    Without either nobody is told, and nothing is wrong.
    """
    if (found := shutil.which(sendmail) if sendmail else None) is not None:
        command = [found, "-oi", *(["-f", sender] if sender else []), "--", *to]
        heads = [f"From: {sender}"] if sender else []
        text = "\n".join([*heads, f"To: {', '.join(to)}", f"Subject: {subject}", "", body])
    elif mail:
        command, text = [mail, "-s", subject, *(["-r", sender] if sender else []), *to], body
    else:
        return ""
    try:
        done = subprocess.run(
            command, input=text.encode(errors="replace"), capture_output=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else f"{command[0]} ended with status {done.returncode}"
