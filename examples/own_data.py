"""Train on pictures of your own: a folder with one folder per class, PNG or JPEG.

python examples/own_data.py                   on a few pictures that it draws
python examples/own_data.py path/to/folder    on yours
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from minicnn import nn
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.folders import small_images
from minicnn.data.loader import Batches
from minicnn.optim import Adam
from minicnn.training import Trainer, evaluate


def draw(folder: Path, each: int = 40) -> None:
    """Discs and stripes of random colours, 40x40 pixels: folder/disc/0.png, ..."""
    from PIL import Image

    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:40, :40]
    for name in ("disc", "stripes"):
        (folder / name).mkdir()
        for i in range(each):
            y, x, size = rng.integers(14, 26), rng.integers(14, 26), rng.integers(6, 12)
            inside = np.hypot(rows - y, columns - x) < size if name == "disc" else (rows + y) % size < size / 2
            light, dark = rng.integers(150, 256, 3), rng.integers(0, 106, 3)
            pixels = np.where(inside[..., None], light, dark).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")


def main(folder: Path, epochs: int = 12) -> float:
    data = small_images(folder, side=24)  # bytes (N, 24, 24, 3), every tenth picture for the test
    print(f"{len(data.train_labels)} pictures of {', '.join(data.classes)}, and {len(data.test_labels)} for the test")
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2), nn.CReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3), nn.CReLU(), nn.GlobalAvgPool(),
        nn.Linear(32, len(data.classes)),
    ).initialise(seed=0)  # fmt: skip
    normalise = Normaliser.of(data.train_images)
    batches = Batches(data.train_images, data.train_labels, 8, normalise, Augmentation(flip=True, shift=2), seed=0)
    trainer = Trainer(model, Adam(model.parameters(), lr=0.003), batches, device="cpu", seed=0)
    losses: list[float] = []
    for _ in range(epochs):
        trainer.finish_epoch(on_step=lambda trainer: losses.append(trainer.totals.mean_loss), every=1)
    error = evaluate(model, data.test_images, data.test_labels, normalise, device="cpu").error
    print(f"{len(losses)} steps, test error {error:.1f} %")
    return error


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            draw(Path(made))
            main(Path(made))
