"""An image without any program: those of the host are mounted into it, and with them what a test needs of this checkout."""

from __future__ import annotations

import io
import tarfile

DIRECTORIES = (
    "usr",
    "sbin",
    "tmp",
    "etc",
    "proc",
    "sys",
    "dev",
    "root",
    "home",
    "var",
    "var/tmp",
    ".singularity.d/actions",
)
LINKS = ("bin", "lib", "lib64")
TEST = b"#!/bin/sh\n"
"""What `apptainer test` runs; it has to be there."""


def thin() -> bytes:
    """The image as an archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name in LINKS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)
        for name, data, mode in ((".singularity.d/actions/test", TEST, 0o755), ("etc/image", b"thin\n", 0o644)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()
