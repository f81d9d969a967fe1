"""Take a network that was trained on CIFAR-10, freeze its features, and teach it other classes.

python examples/transfer.py                    with CReLU (half), which comes with minicnn
python examples/transfer.py my-network.npz     with weights that experiments.export wrote
"""

from __future__ import annotations

import sys

from minicnn import nn
from minicnn.data.augment import Augmentation
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.models import pretrained
from minicnn.optim import SGD
from minicnn.training import Trainer, evaluate


def features_of(network: nn.Sequential) -> nn.Sequential:
    """A trained network without its last convolution and what follows, which know only CIFAR's classes."""
    layers = list(network.layers.items())
    last = max(i for i, (_, layer) in enumerate(layers) if isinstance(layer, nn.Conv2d))
    return nn.Sequential(**dict(layers[:last])).freeze()


def main(name: str = "crelu-half", images: int = 200, epochs: int = 3) -> tuple[float, float]:
    data, trained = textures(images, 200), pretrained(name)
    features = features_of(trained.model)
    (width,) = nn.describe(features, trained.input_shape).rows[-1].output[-1:]
    head = nn.Sequential(nn.GlobalAvgPool(), nn.Linear(width, len(data.classes))).initialise(seed=0)
    model = nn.Sequential(features=features, head=head)
    print(f"{len(model.parameters())} of {len(model.state_dict())} arrays are learned")
    batches = Batches(data.train_images, data.train_labels, 20, trained.normalise, Augmentation(flip=False), seed=0)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.3, momentum=0.9), batches, device="cpu", seed=0)
    before = evaluate(model, data.test_images, data.test_labels, trained.normalise, device="cpu").error
    for _ in range(epochs):
        trainer.finish_epoch()
    after = evaluate(model, data.test_images, data.test_labels, trained.normalise, device="cpu").error
    print(f"test error {before:.1f} % before, {after:.1f} % after {epochs} epochs of the head alone")
    return before, after


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "crelu-half")
