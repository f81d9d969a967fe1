"""How far a long computation is."""

from __future__ import annotations

import sys
import time
from functools import cached_property
from typing import Any


class Progress:
    """A bar on a terminal, a line now and then elsewhere.

    with Progress(total, "images") as progress:   ... progress(10) says that 10 more are done
    """

    def __init__(self, total: int, what: str, unit: str = "image"):
        self.total, self.what, self.unit, self.done = total, what, unit, 0

    @cached_property
    def _bar(self) -> Any:
        from tqdm import tqdm

        return tqdm(total=self.total, desc=self.what, unit=self.unit, leave=False, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        self._terminal, self._spoke = sys.stderr.isatty(), time.monotonic()
        return self

    def __call__(self, more: int = 1) -> None:
        self.done += more
        if self._terminal:
            self._bar.update(more)
        elif time.monotonic() - self._spoke > 20 or self.done == self.total:
            self._spoke = time.monotonic()
            print(f"{self.what}: {self.done}/{self.total} {self.unit}s", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._bar.close()
