"""One thread for the BLAS, while minicnn's own threads do the work (minicnn/parallel.py).

Two reasons.  Many small matrix products side by side are faster than one after the other, each spread over the cores.
And OpenBLAS's threads, once called, wait for more work for some 20 ms in a loop that keeps a core busy: a single
product that uses them slows down everything that comes after it.
"""

from __future__ import annotations

import os
import threading
from typing import Any

_lock = threading.Lock()
_users = 0
_before: list[tuple[Any, int]] = []
_controllers: list[Any] | None = None


def blas_controllers() -> list[Any]:
    """The BLAS libraries in this process whose threads can be set; empty if there are none that we know of."""
    global _controllers
    if _controllers is None:
        from threadpoolctl import ThreadpoolController

        _controllers = ThreadpoolController().select(user_api="blas").lib_controllers
    return _controllers


class one_blas_thread:  # noqa: N801  (used like a function)
    """Inside it BLAS uses one thread; the last to leave restores what was there before the first came.

    A class and not a generator, because every op enters it.
    """

    def __enter__(self) -> None:
        global _users
        with _lock:
            _users += 1
            if _users == 1:
                _before[:] = [(library, library.num_threads) for library in blas_controllers()]
                for library, count in _before:
                    if count != 1:
                        library.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        global _users
        with _lock:
            _users -= 1
            if _users == 0:
                for library, count in _before:
                    if count != 1:
                        library.set_num_threads(count)


def _after_fork() -> None:
    """In a forked child the threads that hold the lock, or were inside, are gone."""
    global _lock, _users
    _lock, _users = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
