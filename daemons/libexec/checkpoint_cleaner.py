"""cleanup_locally_mounted_checkpoint: removes one file of a checkpoint from a file system that this host has mounted.

    -prefix URL -path DIRECTORY -from URL-OF-THE-CHECKPOINT -delete NAME -jobad FILE

What is at `-prefix` in the world of URLs is in `-path` here. A file that is not there is as good as removed. The
directories of the checkpoint go with their last file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

USAGE: Final = "usage: -prefix URL -path DIRECTORY -from URL -delete NAME -jobad FILE\n"


def main(argv: Sequence[str]) -> int:
    """Remove it."""
    options = dict(zip(argv[::2], argv[1::2], strict=False))
    try:
        prefix, path, base, name = (options[key] for key in ("-prefix", "-path", "-from", "-delete"))
    except KeyError:
        sys.stderr.write(USAGE)
        return 1
    if not base.startswith(prefix):
        sys.stderr.write(f"{base} is not beneath {prefix}\n")
        return 1
    inner = f"{base[len(prefix) :].strip('/')}/{name.strip('/')}"
    # The names come from a manifest that the job has written.
    if ".." in inner.split("/"):
        sys.stderr.write(f"{inner} leads elsewhere\n")
        return 1
    try:
        os.unlink(os.path.join(path, inner))
    except FileNotFoundError:
        pass
    except OSError as error:
        sys.stderr.write(f"{inner}: {error.strerror}\n")
        return 2
    _remove_empty(path, os.path.dirname(inner), depth=2 + name.strip("/").count("/"))
    return 0


def _remove_empty(path: str, inner: str, depth: int) -> None:
    """The directories within the checkpoint, its own, and its job's."""
    for _ in range(depth):
        if not inner:
            return
        try:
            os.rmdir(os.path.join(path, inner))
        except FileNotFoundError:
            pass
        except OSError:
            return
        inner = os.path.dirname(inner)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
