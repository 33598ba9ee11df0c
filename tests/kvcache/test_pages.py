"""The pool of pages, and the tables of the sessions that hold them."""

from __future__ import annotations

import pytest

from kvcache.errors import OutOfPages
from kvcache.pool import BlockPool
from kvcache.slots import SlotRule
from kvcache.table import BlockTable

RULE = SlotRule(sink=3, view=9, frames_per_block=3)


def test_the_lowest_free_pages_go_out_first() -> None:
    pool = BlockPool(6)
    assert pool.allocate(3) == (0, 1, 2)
    pool.release((1,))
    assert pool.allocate(2) == (1, 3)
    assert (pool.free, pool.in_use) == (2, 4)


def test_a_pool_that_is_too_small_gives_nothing() -> None:
    pool = BlockPool(4)
    pool.allocate(2)
    with pytest.raises(OutOfPages, match="asked for 3 pages, 2 of 4 are free"):
        pool.allocate(3)
    assert pool.free == 2


def test_a_page_is_released_once() -> None:
    pool = BlockPool(2)
    pages = pool.allocate(1)
    pool.release(pages)
    with pytest.raises(AssertionError, match="page 0 is free"):
        pool.release(pages)
    assert (pool.free, pool.in_use) == (2, 0)


def test_a_run_is_made_of_neighbours() -> None:
    pool = BlockPool(8)
    pool.allocate(8)
    pool.release((0, 2, 3, 5, 6, 7))
    assert pool.allocate_run(3) == (5, 6, 7)
    assert pool.allocate_run(2) == (2, 3)
    with pytest.raises(OutOfPages, match="neighbouring"):
        pool.allocate_run(2)
    assert pool.allocate(1) == (0,)
    assert pool.allocate_run(0) == ()


def test_a_session_holds_at_most_its_view_and_a_block() -> None:
    pool = BlockPool(100)
    table = BlockTable(RULE, pool, branches=2)
    for _ in range(12):
        table.begin()
        assert pool.in_use <= 2 * (9 + 3)
        table.commit()
    assert pool.in_use == len(table.pages) == 2 * 9
    assert table.frames == 36
    table.release()
    table.release()
    assert pool.in_use == 0


def test_a_block_in_flight_is_private_and_a_rollback_gives_it_up() -> None:
    pool = BlockPool(100)
    table = BlockTable(RULE, pool)
    table.begin()
    table.commit()
    before = table.pages
    table.begin()
    assert not set(table.private) & set(before)
    table.rollback()
    table.rollback()
    assert (table.pages, table.private, pool.in_use) == (before, (), 3)


def test_a_begin_without_room_takes_nothing() -> None:
    pool = BlockPool(5)
    table = BlockTable(RULE, pool)
    table.begin()
    table.commit()
    assert not table.can_begin()
    with pytest.raises(OutOfPages):
        table.begin()
    assert pool.in_use == 3
    table.rollback()


def test_a_restored_table_holds_what_the_next_block_sees() -> None:
    pool = BlockPool(12)
    table = BlockTable(RULE, pool)
    table.restore(30)
    assert (table.frames, len(table.pages)) == (30, 6)
    table.begin()
    table.commit()
    assert len(table.pages) == 9
    other = BlockTable(RULE, pool)
    with pytest.raises(OutOfPages, match="asked for 6 pages, 3 and the session's 0"):
        other.restore(30)
    table.restore(3)
    assert len(table.pages) == 3
    other.restore(30)
    assert not set(table.pages) & set(other.pages)
