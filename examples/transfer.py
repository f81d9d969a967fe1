"""Take a network that was trained on CIFAR-10, freeze its features, and teach it other classes.

python examples/transfer.py                 with a small network of docs/results
python examples/transfer.py runs/crelu      with a run of experiments.cifar --act crelu --width half --scale 0.25
"""

from __future__ import annotations

import sys
from pathlib import Path

import minicnn
from minicnn import nn
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.models import convpool
from minicnn.optim import SGD
from minicnn.training import Trainer, arrays_under, evaluate

SHIPPED = Path(__file__).parents[1] / "docs/results/runs/cifar10-convpool-half-crelu-x0.25-short10-seed0"


def features_of(run: Path) -> nn.Sequential:
    """The trained network without its last convolution and what follows, which know only CIFAR's classes."""
    model = convpool("crelu", "half", scale=0.25)
    if (run / "weights.npz").exists():
        model.load_state_dict(minicnn.load(run / "weights.npz")[0])
    else:  # a checkpoint also holds the optimiser's arrays
        model.load_state_dict(arrays_under("model/", minicnn.load(run / "checkpoint.npz")[0]))
    kept = list(model.layers.items())[: list(model.layers).index("conv8")]
    return nn.Sequential(**dict(kept)).freeze()


def main(run: Path = SHIPPED, images: int = 300, epochs: int = 8) -> tuple[float, float]:
    data, features = textures(images, 200), features_of(run)
    (width,) = nn.describe(features, (32, 32, 3)).rows[-1].output[-1:]
    head = nn.Sequential(nn.GlobalAvgPool(), nn.Linear(width, len(data.classes))).initialise(seed=0)
    model = nn.Sequential(features=features, head=head)
    print(f"{len(model.parameters())} of {len(model.state_dict())} arrays are learned")
    normalise = Normaliser.of(data.train_images)
    batches = Batches(data.train_images, data.train_labels, 20, normalise, Augmentation(flip=False), seed=0)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.3, momentum=0.9), batches, device="cpu", seed=0)
    before = evaluate(model, data.test_images, data.test_labels, normalise, device="cpu").error
    for _ in range(epochs):
        trainer.finish_epoch()
    after = evaluate(model, data.test_images, data.test_labels, normalise, device="cpu").error
    print(f"test error {before:.1f} % before, {after:.1f} % after {epochs} epochs of the head alone")
    return before, after


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED)
