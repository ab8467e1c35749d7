"""condor_manifest: what the manifest of a checkpoint says, and whether the files are what it says.

A manifest has a line for each file, `SHA-256 *NAME`, and one for itself at its end: the digest of the lines before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from minipool.cli.entry.options import Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from pool.base.errors import UserError
from pool.base.ids import is_number

CHUNK: Final = 1 << 20
PREFIX: Final = "_condor_checkpoint_MANIFEST."
NAME: Final = "MANIFEST"


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_manifest."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) != 2 or parsed.words[0] not in FUNCTIONS:
        raise UsageError("condor_manifest: [function] [argument]")
    function, argument = parsed.words
    return FUNCTIONS[function](argument)


def number_from_file_name(name: str) -> int:
    """Which checkpoint it is the manifest of: printed, and the exit status; -1 for none."""
    digits = name.removeprefix(PREFIX)
    number = int(digits) if name.startswith(PREFIX) and is_number(digits) else -1
    sys.stdout.write(f"{number}\n")
    # An exit status has eight bits; HTCondor's condor_manifest returns the number all the same.
    return number & 0xFF


def validate_manifest(path: str) -> int:
    """Whether the last line is the digest of those before."""
    return _told(_is_whole(path))


def _is_whole(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return False
    if not lines:
        return False
    own = os.fsdecode(lines[-1].strip())
    # The last line names the manifest by the name it was made under, perhaps in another directory.
    return path.endswith(file_of(own)) and digest_of(own) == _digest(lines[:-1])


def validate_files(path: str) -> int:
    """Whether each file but the manifest is what its line says; the names are as seen from here."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.strip() for line in file]
    except OSError:
        return _told(False, "Failed to open MANIFEST, aborting.")
    if not lines:
        return _told(False, "Failed to read first line of MANIFEST, aborting.")
    for line in lines[:-1]:
        name, listed = file_of(line), digest_of(line)
        found = file_digest(name)
        if found is None:
            return _told(False, f"Failed to open checkpoint file ('{name}') to compute checksum.")
        if found != listed:
            said = f"Checkpoint file '{name}' did not have expected checksum ({found} vs {listed})."
            return _told(False, said)
    return _told(len(lines) > 1, "" if len(lines) > 1 else "The MANIFEST lists no files.")


def _told(valid: bool, why: str = "") -> int:
    sys.stdout.write("true\n" if valid else "false\n" + (f"{why}\n" if why else ""))
    return 0 if valid else 1


def show_file(line: str) -> int:
    """The name in a line."""
    sys.stdout.write(f"{file_of(line)}\n")
    return 0


def show_digest(line: str) -> int:
    """The digest in a line."""
    sys.stdout.write(f"{digest_of(line)}\n")
    return 0


def compute(path: str) -> int:
    """The line for a file."""
    digest = file_digest(path)
    if digest is None:
        return 1
    sys.stdout.write(f"{digest} *{path}\n")
    return 0


def create(directory: str) -> int:
    """Write the file MANIFEST here, with all files of the directory."""
    lines = []
    for path in _files(directory):
        digest = file_digest(path)
        if digest is None:
            raise UserError(f"Failed to compute file ({path}) checksum, aborting.")
        lines.append(os.fsencode(f"{digest} *{path}\n"))
    lines.append(f"{_digest(lines)} *{NAME}\n".encode())
    try:
        with open(NAME, "wb") as file:
            file.writelines(lines)
    except OSError as error:
        raise UserError(f"Failed write manifest file ({NAME}): {error.strerror}, aborting.") from None
    return 0


def _files(directory: str) -> Iterator[str]:
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
        elif entry.is_file():
            yield entry.path


def file_of(line: str) -> str:
    """The name; empty where the line has none."""
    return line.partition(" ")[2].removeprefix("*")


def digest_of(line: str) -> str:
    """What stands before the name."""
    return line.partition(" ")[0]


def file_digest(path: str) -> str | None:
    """A file's SHA-256; None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return _digest(iter(lambda: file.read(CHUNK), b""))
    except OSError:
        return None


def _digest(parts: Sequence[bytes] | Iterator[bytes]) -> str:
    from hashlib import sha256

    found = sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


FUNCTIONS: Final[dict[str, Callable[[str], int]]] = {
    "getNumberFromFileName": number_from_file_name,
    "validateManifestFile": validate_manifest,
    "validateFilesListedIn": validate_files,
    "FileFromLine": show_file,
    "ChecksumFromLine": show_digest,
    "compute_file_sha256_checksum": compute,
    "createManifestFor": create,
}
TOOL: Final = Tool(
    "condor_manifest",
    "Check the list of a checkpoint's files.",
    "FUNCTION ARGUMENT",
    (HELP, VERSION_OPT),
    stop_at_word=True,
    notes="FUNCTION is one of " + ", ".join(FUNCTIONS) + ".",
)
