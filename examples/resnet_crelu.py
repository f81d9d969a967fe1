"""A residual network with CReLU, of layers that are all here: skip connections are `nn.Residual`.

python examples/resnet_crelu.py
"""

from __future__ import annotations

from minicnn import nn
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.optim import SGD
from minicnn.schedule import Cosine
from minicnn.training import Trainer, evaluate


def block(c: int) -> nn.Module:
    """x + body(x) for 2c channels; CReLU makes 2c of c."""
    return nn.Residual(
        nn.Sequential(
            nn.Conv2d(2 * c, c, 3, pad=1, bias=False), nn.BatchNorm(c), nn.CReLU(),
            nn.Conv2d(2 * c, 2 * c, 3, pad=1, bias=False), nn.BatchNorm(2 * c),
        )
    )  # fmt: skip


def narrower(c: int) -> nn.Module:
    """Half the side, twice the channels: the shortcut is a convolution with kernel 1."""
    body = nn.Sequential(nn.Conv2d(2 * c, 2 * c, 3, stride=2, pad=1, bias=False), nn.BatchNorm(2 * c), nn.CReLU())
    return nn.Residual(body, shortcut=nn.Conv2d(2 * c, 4 * c, 1, stride=2))


def resnet(c: int = 4, classes: int = 10) -> nn.Sequential:
    return nn.Sequential(
        stem=nn.Sequential(nn.Conv2d(3, c, 3, stride=2, pad=1), nn.CReLU()),
        block1=block(c),
        down=narrower(c),
        block2=block(2 * c),
        pool=nn.GlobalAvgPool(),
        logits=nn.Linear(4 * c, classes),
    )


def main(images: int = 400, epochs: int = 8) -> float:
    data, model = textures(images, 200), resnet().initialise(seed=0)
    print(model)
    nn.summary(model, (32, 32, 3))
    normalise = Normaliser.of(data.train_images)
    batches = Batches(data.train_images, data.train_labels, 20, normalise, Augmentation(flip=False), seed=0)
    optimiser = SGD(model.parameters(), Cosine(0.1, epochs * len(batches), warmup=10), momentum=0.9, nesterov=True)
    trainer = Trainer(model, optimiser, batches, device="cpu", seed=0, average=nn.EMA(model, 0.95))
    for epoch in range(epochs):
        print(f"epoch {epoch + 1}: loss {trainer.finish_epoch().mean_loss:.3f}")
    assert trainer.average is not None
    with trainer.average.applied():
        error = evaluate(model, data.test_images, data.test_labels, normalise, device="cpu").error
    print(f"test error {error:.1f} %")
    return error


if __name__ == "__main__":
    main()
