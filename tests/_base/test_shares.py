"""Work that threads share is done once, by as many threads as there are."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graphfaith._base.shares import Shares


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_every_piece_is_done_once_with_one_thread_of_torch(helpers):
    done, settings = [], set()

    def work(piece):
        done.append(piece)
        settings.add(torch.get_num_threads())

    with ThreadPoolExecutor(max(helpers, 1)) as pool:
        Shares(work, range(50), pool if helpers else None, helpers).finish()
    assert sorted(done) == list(range(50))
    assert settings == {1}


def test_helpers_begin_before_anybody_waits():
    began = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        shares = Shares(lambda _: began.set(), [0], pool, 1)
        assert began.wait(10)
        shares.finish()


def test_an_exception_is_raised_where_the_work_is_wanted():
    with ThreadPoolExecutor(2) as pool:
        shares = Shares(lambda piece: 1 // piece, [0, 1, 2], pool, 2)
        with pytest.raises(ZeroDivisionError):
            shares.finish()
