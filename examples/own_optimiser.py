"""An optimiser of your own: Lion (Chen et al. 2023) in one method; schedules, clipping and checkpoints are the base's.

python examples/own_optimiser.py
"""

from __future__ import annotations

from minicnn import nn
from minicnn.backend import Array, array_module
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.optim import Optimiser
from minicnn.schedule import Cosine
from minicnn.training import Trainer


class Lion(Optimiser):
    """p = p - lr sign(0.9 m + 0.1 g),   m = 0.99 m + 0.01 g."""

    slots = ("mean",)  # one array for each parameter, zeros at first, saved and restored

    def update(self, p: Array, g: Array, state: dict[str, Array], lr: float, t: int) -> None:
        """In place, for a piece of a parameter: p, g and the slots have the same shape."""
        m = state["mean"]
        p -= lr * array_module(p).sign(0.9 * m + 0.1 * g)
        m *= 0.99
        m += 0.01 * g


def main(images: int = 400, epochs: int = 6) -> list[float]:
    data = textures(images, 100)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=3), nn.CReLU(), nn.Conv2d(16, 8, 3), nn.CReLU(), nn.GlobalAvgPool(), nn.Linear(16, 10)
    ).initialise(seed=0)
    normalise = Normaliser.of(data.train_images)
    batches = Batches(data.train_images, data.train_labels, 20, normalise, Augmentation(flip=False), seed=0)
    optimiser = Lion(model.parameters(), Cosine(0.003, epochs * len(batches)), clip=1.0)
    trainer = Trainer(model, optimiser, batches, device="cpu", seed=0)
    losses = [trainer.finish_epoch().mean_loss for _ in range(epochs)]
    print("losses", " ".join(f"{loss:.3f}" for loss in losses))
    return losses


if __name__ == "__main__":
    main()
