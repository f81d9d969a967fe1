"""Small networks with every layer that can be translated, each with the shape of its images; and their weights."""

import numpy as np

from minicnn import nn, ops
from minicnn.models import allcnn_b, convpool, sprint, vgg
from minicnn.nn import Sequential

SHAPE = (9, 8, 3)


def behind(*layers):
    """Layers on flat features, where the order of these matters; a Linear ends it."""
    return Sequential(nn.Flatten(), *layers, nn.Linear(2 * 9 * 8 * 3, 5))


LAYERS = {
    "Conv2d": Sequential(nn.Conv2d(3, 4, (3, 2), stride=(2, 1), pad=((1, 0), (0, 2))), nn.GlobalAvgPool()),
    "Conv2d, plain": Sequential(nn.Conv2d(3, 4, 3, stride=2, pad=(1, 2), bias=False)),  # ends with an image
    "Linear": Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(168, 6), nn.ReLU(), nn.Linear(6, 6, bias=False)),
    "BatchNorm": Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4, eps=0.1), nn.AVR(), nn.GlobalAvgPool()),
    "BatchNorm, flat": behind(nn.BatchNorm(9 * 8 * 3), nn.Dropout(0.5), nn.CReLU()),
    "Antirectifier, flat": behind(nn.Antirectifier()),
    "MaxPool2d": Sequential(nn.MaxPool2d(3, stride=2, pad=1), nn.Flatten(), nn.Linear(5 * 4 * 3, 2)),
    "MaxPool2d, ceil": Sequential(nn.MaxPool2d(3, stride=2, ceil=True), nn.MaxPool2d(2, stride=3, pad=1, ceil=True)),
    "MaxPool2d, wide": Sequential(nn.MaxPool2d(4, stride=2, pad=3), nn.AvgPool2d(4, stride=2, pad=3, ceil=True)),
    "MaxPool2d, sides": Sequential(nn.MaxPool2d((3, 4), stride=(2, 3), pad=((0, 2), (3, 1)), ceil=True)),
    "AvgPool2d": Sequential(nn.AvgPool2d(3, stride=2, pad=1), nn.AvgPool2d(2, stride=3, pad=1, ceil=True)),
    "AvgPool2d, pads count": Sequential(
        nn.AvgPool2d(3, stride=(3, 2), pad=1, ceil=True, count_include_pad=True),
        nn.AvgPool2d(2, stride=3, pad=1, ceil=True, count_include_pad=True),
    ),
    "AvgPool2d, beyond": Sequential(nn.AvgPool2d(3, stride=(3, 2), pad=1, ceil=True, count_include_pad=True)),
    "AvgPool2d, sides": Sequential(
        nn.AvgPool2d((3, 4), stride=(2, 3), pad=((0, 2), (3, 1)), ceil=True),
        nn.AvgPool2d(3, stride=4, pad=((2, 0), (0, 2)), ceil=True, count_include_pad=True),
    ),
    "GlobalAvgPool": Sequential(nn.GlobalAvgPool()),
    "ReLU": Sequential(nn.ReLU(), nn.GlobalAvgPool()),
    "LeakyReLU": Sequential(nn.LeakyReLU(0.2)),
    "AVR": Sequential(nn.AVR()),
    "CReLU": Sequential(nn.CReLU(), nn.Conv2d(6, 2, 1)),
    "CReLU, leaky": Sequential(nn.CReLU(ops.leaky_relu, slope=0.1), nn.Conv2d(6, 2, 1)),
    "Antirectifier": Sequential(nn.Antirectifier(), nn.Conv2d(6, 2, 1)),
    "Activation": Sequential(nn.Activation(ops.soft_threshold, two_sided=True, threshold=0.1)),
    "Lambda": Sequential(nn.GlobalAvgPool(), nn.Lambda(ops.log_softmax), nn.Lambda(ops.softmax)),
    "Dropout": Sequential(nn.Dropout(0.5), nn.ReLU()),
    "Flatten": Sequential(nn.MaxPool2d((9, 8)), nn.Flatten()),
    "Residual": Sequential(
        conv=nn.Conv2d(3, 4, 3, pad=1),
        skip=nn.Residual(Sequential(nn.Conv2d(4, 2, 3, pad=1, bias=False), nn.BatchNorm(2), nn.CReLU())),
        last=nn.AVR(),  # what comes behind sees the sum
    ),
    "Residual, shortcut": Sequential(
        nn.Residual(Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.CReLU()), nn.Conv2d(3, 8, 3, stride=2)),
        nn.GlobalAvgPool(),
    ),
    "Residual, nested": Sequential(nn.Residual(nn.Residual(nn.Conv2d(3, 3, 1), nn.LeakyReLU(0.3)), nn.Dropout(0.5))),
    "Residual, flat": behind(nn.Residual(nn.BatchNorm(9 * 8 * 3)), nn.CReLU()),
    "Residual, Flatten": Sequential(nn.Residual(Sequential(nn.Flatten(), nn.ReLU()), nn.Flatten()), nn.Linear(216, 4)),
    "names of the model's": Sequential(images=nn.Conv2d(3, 4, 1), pool=nn.GlobalAvgPool(), logits=nn.Linear(4, 2)),
    "Sequential": Sequential(first=Sequential(conv=nn.Conv2d(3, 4, 3), act=nn.CReLU()), pool=nn.GlobalAvgPool()),
}  # fmt: skip

NETWORKS = {
    "convpool": (lambda: convpool("crelu", "half", scale=0.1), (32, 32, 3)),
    "convpool-c, avr": (lambda: convpool("avr", arch="convpool-c", scale=0.1), (32, 32, 3)),
    "vgg": (lambda: vgg("crelu", (1, 3), scale=0.1, bn_before_act=True), (32, 32, 3)),
    "all-cnn-b": (lambda: allcnn_b("crelu-conv1-4", classes=7, scale=0.05), (67, 67, 3)),
    "sprint": (lambda: sprint(scale=0.1), (32, 32, 3)),
}


def with_random_state(model, seed=0):
    """All of its numbers are drawn, also the running statistics, so that none can be left out unnoticed."""
    rng = np.random.default_rng(seed)
    state = {}
    for name, array in model.state_dict().items():
        fan_in = max(1, int(np.prod(array.shape[:-1])))
        drawn = rng.standard_normal(array.shape) / np.sqrt(fan_in)
        state[name] = 0.5 + np.abs(drawn) if name.endswith(("running_var", "gamma")) else drawn
    model.load_state_dict(state)
    return model


def images(shape, count=3, seed=1):
    return np.random.default_rng(seed).standard_normal((count, *shape)).astype(np.float32)


def channels_last(y):
    """The output of another framework in our order of axes."""
    return y.transpose(0, 2, 3, 1) if y.ndim == 4 else y


def every_network():
    """(name, model, shape of its images) of all that is above."""
    yield from ((name, with_random_state(model), SHAPE) for name, model in LAYERS.items())
    yield from ((name, with_random_state(make()), shape) for name, (make, shape) in NETWORKS.items())


def assert_same(ours, theirs, limit=1e-5):
    """Equal up to a small share of the largest value."""
    assert ours.shape == theirs.shape
    largest = np.abs(ours).max()
    assert largest > 1e-3
    assert np.abs(ours - theirs).max() <= limit * largest
