"""Where the files of a spooled job may go: an access point says where they belong, and is not believed in all.

They stay beneath the directory that the user is in, whatever links there are, and are no hidden files of the home
directory, which shells and ssh read, unless the user is inside a hidden directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from pool.base.errors import UserError
from protocol.files.placement import may_be_a_path


class Places:
    """The places that `named` gives to files, for a user who is in the directory `here`."""

    def __init__(self, named: Callable[[str], str], here: str, home: str) -> None:
        self._named = named
        self._here, self._home = os.path.realpath(here), os.path.realpath(home)

    def where(self, name: str) -> str:
        """The place of a file; UserError when it may not go there."""
        place = self._named(name)
        if not may_be_a_path(place):
            return place  # no file can have this name, which is said when it is opened
        # Where it really is counts, not how it is written: a link that was there before may lead anywhere.
        real = os.path.realpath(place)
        if not _is_beneath(self._here, real):
            why = f"it belongs to {real}, which is not beneath this directory"
            raise UserError(f"{name} is not fetched: {why}", expected="to be run where the job was submitted")
        if self._is_hidden_at_home(real):
            raise UserError(f"{name} is not fetched: {real} would be a hidden file of the home directory")
        return place

    def _is_hidden_at_home(self, real: str) -> bool:
        if not _is_beneath(self._home, real):
            return False
        top = os.path.relpath(real, self._home).partition("/")[0]
        return top.startswith(".") and not _is_beneath(os.path.join(self._home, top), self._here)


def _is_beneath(directory: str, path: str) -> bool:
    return os.path.commonpath((directory, path)) == directory
