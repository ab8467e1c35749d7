"""A small file that is replaced as a whole: after a crash or a power cut it says all of the old, or all of the new."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Returns when the text is on disk under this name, for the eyes of its account only."""
    new = path.with_name(f"{path.name}.new")
    with open(new, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        # Before the rename: after a power cut the name must not lead to an empty file.
        os.fsync(file.fileno())
    os.replace(new, path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)  # or the power cut brings the old one back
    finally:
        os.close(directory)
