"""The progress of a long computation."""

from __future__ import annotations

import sys
import time
from functools import cached_property
from typing import Any

from experiments.cli.app import duration
from minicnn.training import Trainer


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
        self._terminal, self._start = sys.stderr.isatty(), time.monotonic()
        self._spoke = self._start
        return self

    def __call__(self, more: int = 1) -> None:
        self.done += more
        if self._terminal:
            self._bar.update(more)
        elif time.monotonic() - self._spoke > 20 or self.done == self.total:
            self._spoke = time.monotonic()
            left = (self._spoke - self._start) * (self.total - self.done) / self.done
            words = f", {duration(left)} left" if self.done < self.total else ""
            print(f"{self.what}: {self.done}/{self.total} {self.unit}s{words}", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._bar.close()


class EpochBar:
    """The same for an epoch of a training: its loss, error and speed, and the time left for all epochs.

    with EpochBar(trainer, last) as bar:   ... bar.update(trainer) after some steps, bar.close(row, ...) at the end
    """

    def __init__(self, trainer: Trainer, last: int):
        self.trainer, self.last = trainer, last

    def __enter__(self) -> EpochBar:
        self._start = time.monotonic()
        self._first = self.trainer.step
        self._spoke = self._start
        self._bar = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=len(self.trainer.batches),
                initial=self._first,
                desc=f"epoch {self.trainer.epoch + 1}/{self.last}",
                unit="batch",
                leave=False,
                dynamic_ncols=True,
            )
        return self

    def update(self, trainer: Trainer) -> None:
        now = time.monotonic()
        done = trainer.step - self._first
        speed = done * trainer.batches.batch / max(1e-9, now - self._start)
        left = (self.last - trainer.epoch) * len(trainer.batches) - trainer.step
        text = (
            f"loss {trainer.totals.mean_loss:.3f}, error {trainer.totals.error:.1f} %, {speed:.0f} images/s, "
            f"{duration(left * trainer.batches.batch / max(1e-9, speed))} left"
        )
        if self._bar is not None:
            self._bar.update(trainer.step - self._bar.n)
            self._bar.set_postfix_str(text)
        elif now - self._spoke > 60:
            self._spoke = now
            where = f"epoch {trainer.epoch + 1}/{self.last}, step {trainer.step}/{len(trainer.batches)}"
            print(f"{where}: {text}", file=sys.stderr, flush=True)

    def close(self, row: dict[str, Any], others: str = "") -> None:
        """Print the final line of an epoch; `others` says how the network does on other images."""
        line = (
            f"epoch {row['epoch']}/{self.last}: loss {row['train_loss']:.4f}, train error {row['train_error']:.2f} %"
            f"{others}, lr {row['lr']:.2g}, {duration(time.monotonic() - self._start)}"
        )
        if self._bar is not None:
            self._bar.close()
        print(line, file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
