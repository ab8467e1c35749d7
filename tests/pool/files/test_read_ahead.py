"""What is fetched before it is asked for."""

from __future__ import annotations

from pool.files.read_ahead import AHEAD_MAX, BLOCK_BYTES, Blocks, Reader


def test_the_longer_a_reader_is_in_order_the_more_is_fetched_ahead() -> None:
    reader, size = Reader(), 100 * BLOCK_BYTES
    ahead = []
    for block in (0, 0, 1, 2, 3):
        assert reader.asks_for(block)
        ahead.append(len(reader.ahead(size)))
    assert ahead == [1, 1, 2, 3, 4]
    for block in range(4, 40):
        reader.asks_for(block)
    assert reader.ahead(size) == range(40, 40 + AHEAD_MAX)
    assert reader.ahead(40 * BLOCK_BYTES + 1) == range(40, 41)
    assert not reader.ahead(40 * BLOCK_BYTES)


def test_nothing_is_fetched_ahead_for_who_jumps_about() -> None:
    reader = Reader()
    for block in (7, 3, 50):
        assert not reader.asks_for(block)
        assert not reader.ahead(100 * BLOCK_BYTES)
    assert reader.asks_for(51)
    assert reader.ahead(100 * BLOCK_BYTES) == range(52, 53)


def test_no_more_blocks_are_kept_than_may_be() -> None:
    blocks: Blocks[str] = Blocks(3)
    for number in range(3):
        blocks.keep(1, number, f"block {number}")
    assert blocks.get(1, 0) == "block 0"
    blocks.keep(2, 0, "another file's")
    assert [blocks.get(1, number) for number in range(3)] == ["block 0", None, "block 2"]
    blocks.drop(1)
    assert (len(blocks), blocks.get(2, 0)) == (1, "another file's")
