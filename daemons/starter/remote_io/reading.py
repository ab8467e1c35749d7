"""What a job reads of files at home: blocks that are fetched once for all who ask, and ahead of who is in order."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable

import trio

from pool.files.read_ahead import BLOCK_BYTES, Blocks, Reader

Fetch = Callable[[int, int], Awaitable[bytes]]
"""So many bytes from a place, fewer at the end of the file; or OSError."""
Data = list[memoryview]
"""Bytes one after another, in the blocks that they lie in."""


class _Block:
    """One that is there, or on its way."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.data = b""
        self.error = 0


class Reading:
    """All files of one served directory."""

    def __init__(self, nursery: trio.Nursery, cache_bytes: int) -> None:
        self._nursery = nursery
        self._blocks: Blocks[_Block] = Blocks(max(1, cache_bytes // BLOCK_BYTES))

    def drop(self, file: int) -> None:
        """What is kept of a file may not be true any more."""
        if len(self._blocks):
            self._blocks.drop(file)

    def keep(self, file: int, data: bytes) -> None:
        """The whole of a small file came when it was opened."""
        block = _Block()
        block.data = data
        block.done.set()
        self._blocks.keep(file, 0, block)

    def read_now(self, file: int, reader: Reader, size: int, at: int, file_size: int) -> Data | None:
        """What is here and needs nothing to be fetched ahead; None when it may take more."""
        number, start = divmod(at, BLOCK_BYTES)
        block = self._blocks.get(file, number)
        end = start + size
        if block is None or reader.last != number or end > BLOCK_BYTES or not block.done.is_set() or block.error:
            return None
        return _part(block.data, start, end) if len(block.data) >= min(end, file_size - number * BLOCK_BYTES) else None

    async def read(self, file: int, reader: Reader, size: int, at: int, file_size: int, fetch: Fetch) -> Data:
        """What somebody asks for, of a file that had this size; OSError as it failed at home."""
        first, last = at // BLOCK_BYTES, (at + size - 1) // BLOCK_BYTES
        in_order = reader.asks_for(first)
        if last != first:
            in_order = reader.asks_for(last) and in_order
        # The kernel keeps what it was given: what is not in order need not be kept here as well.
        if not in_order and self._blocks.get(file, first) is None:
            return [memoryview(await fetch(size, at))]
        wanted = [self._block(file, number, fetch) for number in range(first, last + 1)]
        for number in reader.ahead(file_size):
            self._block(file, number, fetch)
        found: Data = []
        for number, block in enumerate(wanted, first):
            start = max(at - number * BLOCK_BYTES, 0)
            end = min(at + size - number * BLOCK_BYTES, BLOCK_BYTES)
            needed = min(end, max(0, file_size - number * BLOCK_BYTES))
            data = await self._data(file, number, block, needed, fetch)
            found += _part(data, start, end)
            if len(data) < BLOCK_BYTES:
                break
        return found

    def _block(self, file: int, number: int, fetch: Fetch) -> _Block:
        block = self._blocks.get(file, number)
        if block is None:
            block = _Block()
            self._blocks.keep(file, number, block)
            self._nursery.start_soon(self._fetch, file, number, block, fetch)
        return block

    async def _fetch(self, file: int, number: int, block: _Block, fetch: Fetch) -> None:
        try:
            block.data = await fetch(BLOCK_BYTES, number * BLOCK_BYTES)
        except OSError as error:
            block.error = error.errno or errno.EIO
            if self._blocks.get(file, number) is block:
                self._blocks.drop(file, number)
        finally:
            block.done.set()

    async def _data(self, file: int, number: int, block: _Block, needed: int, fetch: Fetch) -> bytes:
        await block.done.wait()
        if not block.error and len(block.data) < needed and self._blocks.get(file, number) is block:
            # The file ended here, and has grown since.
            self._blocks.drop(file, number)
            block = self._block(file, number, fetch)
            await block.done.wait()
        if block.error:
            raise OSError(block.error, os.strerror(block.error))
        return block.data


def _part(data: bytes, start: int, end: int) -> Data:
    """Those bytes, not copied."""
    return [memoryview(data)[start:end]]
