"""Weak scaling: every rank has the same number of images, whatever the number of ranks.  What does a step cost?

examples:
  python -m experiments.scaling                                   one process, to compare with
  mpiexec -n 4 python -m experiments.scaling                      four ranks: four times as many images in a batch
  mpiexec -n 4 python -m experiments.scaling --model vgg          batch normalisation talks within a step

For each rank: the median time of a step, and how much of it passed in communication; that includes the time in which a
rank waits for slower ones.  Images come from the textures data set, made by formulas.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from experiments.cli.app import argument_parser, get_device, usage_errors
from experiments.cli.ranks import run_on_ranks
from experiments.cli.values import check_numbers
from experiments.tables.table import Table
from experiments.train.cifar import MODELS, CifarSettings
from minicnn.backend import Device
from minicnn.cluster import ALONE, Communicator, T
from minicnn.data.augment import Normaliser
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.training import Trainer

MODULE = "experiments.scaling"
WARM_UP = 3  # steps that are not counted
DIFFERENT = 500  # images; they are used again and again


class Watched(Communicator):
    """A communicator that counts the seconds spent in it."""

    def __init__(self, inner: Communicator):
        self.inner, self.seconds = inner, 0.0
        self.rank, self.size = inner.rank, inner.size
        self.local_rank, self.local_size = inner.local_rank, inner.local_size

    def _timed(self, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self.seconds += time.perf_counter() - start
        return result

    def gather(self, value: T) -> list[T]:
        return self._timed(lambda: self.inner.gather(value))

    def gather_number(self, number: int) -> list[int]:
        return self._timed(lambda: self.inner.gather_number(number))

    def sum(self, array: np.ndarray) -> np.ndarray:
        return self._timed(lambda: self.inner.sum(array))

    def on_root(self, work: Callable[[], T]) -> T:
        return self._timed(lambda: self.inner.on_root(work))


def main(arguments: list[str], cluster: Communicator = ALONE) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--images", type=int, default=32, help="of each rank in a step (default 32)")
    p.add_argument("--steps", type=int, default=20, help=f"that are counted, after {WARM_UP} others (default 20)")
    p.add_argument("--model", choices=MODELS, default="convpool", help="default convpool; vgg: batch normalisation")
    p.add_argument("--scale", type=float, default=0.25, help="multiply every width (default 0.25)")
    p.add_argument("--device", default="auto", help="auto (a GPU where one works), cpu or gpu: each rank its own")
    p.add_argument("--dry-run", action="store_true", help="say what would be done, and stop")
    args = p.parse_args(arguments)
    with usage_errors():
        check_numbers(vars(args), positive=("images", "steps"))
        asked = CifarSettings.of(
            model=args.model, scale=args.scale, batch=args.images * cluster.size, dataset="textures"
        )
        asked.check()
    device = get_device(args.device, cluster)
    print(f"{asked.name} on {device}: ranks {cluster.size}, images {args.images} each, steps {args.steps}")
    if args.dry_run:
        return 0
    step, talk = measure(asked, args.steps, device, cluster)
    ranks = cluster.gather((step, talk))
    rows = [
        [str(i), f"{1e3 * s:.1f}", f"{1e3 * (s - t):.1f}", f"{1e3 * t:.1f}", f"{100 * t / s:.1f}"]
        for i, (s, t) in enumerate(ranks)
    ]
    print(f"\n{Table(['rank', 'step ms', 'compute ms', 'communication ms', 'share %'], rows).text()}\n")
    print(f"{asked.batch / max(s for s, _ in ranks):.0f} images/s on all ranks together")
    return 0


def measure(asked: CifarSettings, steps: int, device: Device, cluster: Communicator) -> tuple[float, float]:
    """Seconds of a step and of communication within it, medians over the steps."""
    watched, data = Watched(cluster), textures(DIFFERENT, 10)
    chosen = np.arange((WARM_UP + steps) * asked.batch) % DIFFERENT
    batches = Batches(
        data.train_images[chosen],
        data.train_labels[chosen],
        asked.batch,
        Normaliser.of(data.train_images),
        asked.augmentation(),
        asked.seed,
        watched,
    )
    model = asked.build_model().to(device)
    optimiser = asked.build_optimiser(model, len(batches))
    trainer = Trainer(model, optimiser, batches, device=device, seed=asked.seed, cluster=watched)
    marks: list[tuple[float, float]] = []

    def mark() -> bool:
        """Called after every step."""
        device.synchronize()
        marks.append((time.perf_counter(), watched.seconds))
        return False

    trainer.finish_epoch(stop=mark)
    between = np.diff(np.array(marks[WARM_UP - 1 :]), axis=0)  # (steps, 2)
    return median(between[:, 0].tolist()), median(between[:, 1].tolist())


if __name__ == "__main__":
    run_on_ranks(main, MODULE)
