"""The files that condor_history reads: with their earlier parts, or one for each job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from pool.base.errors import UserError
from pool.base.ids import is_number
from pool.classad import ClassAd


def of_files(paths: Iterable[str], kinds: Sequence[str], forwards: bool) -> Iterator[ClassAd]:
    """The ads of files in their order: of these kinds, or of all when there are none."""
    from pool.jobs.queue.history_file import records

    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except OSError as error:
            raise UserError(f"Error opening history file {path}: {error.strerror}") from None
        for record in records(text, backwards=not forwards):
            if not kinds or "ALL" in kinds or record.kind in kinds:
                ads = _parsed(record.text, path)
                yield from ads if forwards else reversed(ads)


def _parsed(text: str, path: str) -> list[ClassAd]:
    """The ad of a record, or ads that only empty lines set apart."""
    from pool.classad import parse_longs

    return list(parse_longs(text.split("\n"), file=path))


def with_earlier(path: str, forwards: bool) -> list[str]:
    """A file and its earlier parts, in the order in which they are read."""
    from pool.jobs.queue.history_file import rotations

    directory = os.path.dirname(path) or "."
    try:
        found = [os.path.join(directory, name) for name in rotations(path, os.listdir(directory))]
    except OSError:
        found = []
    # A history that has just been rotated has earlier parts alone.
    found += [path] if os.path.exists(path) or not found else []
    return found if forwards else found[::-1]


def remove(paths: Iterable[str]) -> None:
    """Remove what -epochs:d has read; what another has removed meanwhile is gone as well."""
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise UserError(f"Error: failed to delete {path}: {error.strerror}") from None


def files_of(directory: str, forwards: bool) -> list[str]:
    """The files of executions, one for each job."""
    try:
        names = [name for name in os.listdir(directory) if name.startswith("job.runs.") and name.endswith(".ads")]
    except OSError as error:
        raise UserError(f"Error: cannot read {directory}: {error.strerror}") from None
    # job.runs.12.3.ads: by number, for 10 comes after 9.
    names.sort(key=lambda name: [int(part) for part in name.split(".") if is_number(part)], reverse=not forwards)
    return [os.path.join(directory, name) for name in names]
