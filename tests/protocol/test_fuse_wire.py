"""What a server of files and the kernel agree on before the first file is asked for."""

from __future__ import annotations

from struct import Struct

import pytest

from protocol.fuse import wire

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(("page_bytes", "pages"), [(4 * KIB, 256), (16 * KIB, 64), (64 * KIB, 16)])
def test_what_is_read_at_a_time_is_told_in_the_kernels_own_pages(page_bytes: int, pages: int) -> None:
    """Kernels of aarch64 may have larger pages than those of x86-64."""
    asked = wire.Asked(wire.Op.INIT, 1, 0, memoryview(Struct("=4I").pack(7, 36, 0, 0)))
    body = wire.init(asked, write_bytes_max=MIB, read_bytes_max=MIB, read_ahead=0, page_bytes=page_bytes)
    told = Struct("=4IHHIIHH32x").unpack(body)
    assert told[-2] == pages
