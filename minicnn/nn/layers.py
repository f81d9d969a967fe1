"""The layers: parameters around ops.  Arguments that an op takes have the same names here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from minicnn import ops
from minicnn.autodiff import Buffer, Op, Parameter, Tensor, recording
from minicnn.backend import Array, to_host
from minicnn.cluster import Part
from minicnn.fast.fused import ACTIVATIONS, conv2d_activated, conv2d_normalised
from minicnn.fast.native.library import available
from minicnn.nn import init
from minicnn.nn.init import Scheme
from minicnn.nn.module import Module, Train, put_like
from minicnn.ops.norm import part_and_count, update_running
from minicnn.ops.windows import Pad, Size, as_pair
from minicnn.random import Stream


class Conv2d(Module):
    """Convolution with `c_out` filters of size k over `c_in` channels."""

    def __init__(
        self,
        c_in: int,
        c_out: int,
        k: Size,
        *,
        stride: Size = 1,
        pad: Pad = 0,
        bias: bool = True,
        scheme: Scheme = init.he_normal,
    ):
        _positive("Conv2d", c_in=c_in, c_out=c_out)
        self.stride, self.pad = stride, pad
        self.weight = _parameter(*as_pair("Conv2d", "k", k), c_in, c_out)
        self.bias = _parameter(c_out) if bias else None
        self.schemes = {"weight": scheme, "bias": init.zeros}
        self.draw(Stream(0))

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        return ops.conv2d(x, self.weight, self.bias, stride=self.stride, pad=self.pad)

    def with_next(self, following: Sequence[Module], train: Train) -> tuple[Callable[[Any], Tensor], int] | None:
        """One op for the convolution and a ReLU or CReLU after it; in evaluation also a BatchNorm between them."""
        # Types are compared exactly: a class derived from one of these may compute something else.
        if type(self) is not Conv2d or not following:
            return None
        geometry = {"stride": self.stride, "pad": self.pad}
        if not train and type(following[0]) is BatchNorm and self._takes_in(following[0]):
            scale, shift = following[0].scale_and_shift()
            if self.bias is not None:
                shift = self.bias.data * scale + shift
            activation = _fused_name(following[1]) if len(following) > 1 else None
            return (
                lambda x: conv2d_normalised(x, self.weight, scale, shift, activation=activation, **geometry),
                2 if activation else 1,
            )
        if (activation := _fused_name(following[0])) is None:
            return None
        return lambda x: conv2d_activated(x, self.weight, self.bias, activation=activation, **geometry), 1

    def _takes_in(self, norm: BatchNorm) -> bool:
        """Whether a batch normalisation by fixed moments is done with the convolution.

        Not while a tape records, which is to know of all parameters; and on a GPU it has a kernel of its own.
        """
        return norm.gamma.shape == self.weight.shape[3:] and available(self.weight.data) and not recording()

    def whiten(self, images: np.ndarray, *, opposites: bool, eps: float = 5e-4) -> None:
        """Start with the principal components of the images' patches, each divided by its standard deviation.

        images (N, H, W, C), as this layer sees them.  The first filters get them, the largest component first, followed
        by their opposites if an activation follows that needs those; filters that are left stay as they are.
        """
        (kh, kw, c, f), patches = self.weight.shape, self.weight.data.size // self.weight.shape[3]
        if images.ndim != 4 or images.shape[3] != c or min(images.shape[1] - kh, images.shape[2] - kw) < 0:
            raise ValueError(f"Conv2d.whiten: needs images (N, H, W, {c}) of {kh}x{kw} or more, got {images.shape}")
        windows = np.lib.stride_tricks.sliding_window_view(images, (kh, kw), axis=(1, 2))  # (N, H', W', C, kh, kw)
        x = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, patches).astype(np.float64)
        needed = f"Conv2d.whiten: needs more than {patches} patches, all of finite numbers, got {len(x)}"
        if len(x) <= patches:
            raise ValueError(f"{needed}: give it more images")
        if not np.isfinite(x).all():
            raise ValueError(f"{needed}, some with NaN or inf")
        values, vectors = np.linalg.eigh(np.cov(x, rowvar=False))  # in ascending order
        found = (vectors / np.sqrt(values + eps))[:, ::-1][:, : f // 2 if opposites else f]
        found = np.concatenate([found, -found], axis=1) if opposites else found
        w = to_host(self.weight.data).copy()
        w[..., : found.shape[1]] = found.reshape(kh, kw, c, -1)
        self.weight.data = put_like(w, self.weight.data)

    def kernel(self) -> str:
        extras = [f"/{self.stride}"] if self.stride != 1 else []
        extras += [f"pad {self.pad}"] if self.pad != 0 else []
        return " ".join(["x".join(map(str, self.weight.shape)), *extras])


class Linear(Module):
    """y = x w + b, weight (c_in, c_out)."""

    def __init__(self, c_in: int, c_out: int, *, bias: bool = True, scheme: Scheme = init.he_normal):
        _positive("Linear", c_in=c_in, c_out=c_out)
        self.weight = _parameter(c_in, c_out)
        self.bias = _parameter(c_out) if bias else None
        self.schemes = {"weight": scheme, "bias": init.zeros}
        self.draw(Stream(0))

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        return ops.linear(x, self.weight, self.bias)

    def kernel(self) -> str:
        return "x".join(map(str, self.weight.shape))


class BatchNorm(Module):
    """Batch normalisation over all axes but the last.

    Training uses the moments of the batch, of the whole batch where many processes share it.  They also update the
    running ones, which evaluation uses: running = (1 - momentum) running + momentum batch, with the unbiased variance
    (as in PyTorch).
    """

    def __init__(self, c: int, *, eps: float = 1e-5, momentum: float = 0.1, scheme: Scheme = init.ones):
        _positive("BatchNorm", c=c)
        if not (eps > 0 and 0 <= momentum <= 1):
            raise ValueError(f"BatchNorm: needs eps > 0 and momentum in [0, 1], got {eps} and {momentum}")
        self.eps, self.momentum = float(eps), float(momentum)
        self.gamma, self.beta = _parameter(c), _parameter(c)
        self.running_mean = Buffer(np.zeros(c, np.float32))
        self.running_var = Buffer(np.ones(c, np.float32))
        self.schemes = {"gamma": scheme, "beta": init.zeros}
        self.draw(Stream(0))

    def scale_and_shift(self) -> tuple[Array, Array]:
        """What evaluation does as y = scale x + shift, channel by channel."""
        scale = self.gamma.data / np.sqrt(self.running_var.data + self.eps)
        return scale, self.beta.data - self.running_mean.data * scale

    def draw(self, stream: Stream) -> None:
        super().draw(stream)
        self.running_mean.data = put_like(np.zeros(self.gamma.shape), self.running_mean.data)
        self.running_var.data = put_like(np.ones(self.gamma.shape), self.running_var.data)

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        if not train:
            moments = (self.running_mean.data, self.running_var.data)
            return ops.batch_norm(x, self.gamma, self.beta, moments=moments, fixed=True, eps=self.eps)
        values = x.data if isinstance(x, Tensor) else x
        part, count = part_and_count(values, train if isinstance(train, Part) else None)
        if count < 2:
            raise ValueError(
                f"BatchNorm: training needs more than one value per channel, x has shape {values.shape}; "
                "choose a batch size that leaves more than one image for the last batch"
            )
        moments = ops.batch_moments(values, part)
        y = ops.batch_norm(
            x, self.gamma, self.beta, moments=moments, part=part, eps=self.eps
        )  # raises if x does not fit
        running = (self.running_mean.data, self.running_var.data)
        update_running(running, moments, self.momentum, count / (count - 1))  # in place, where a graph finds them
        return y


class Dropout(Module):
    """Sets a share `rate` of its input to zero in training, does nothing in evaluation."""

    def __init__(self, rate: float):
        if not 0 <= rate < 1:
            raise ValueError(f"Dropout: rate must be in [0, 1), got {rate}")
        self.rate = rate

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        if not train or self.rate == 0:
            return x
        if stream is None:
            raise ValueError(
                "Dropout: training needs random bits: "
                'model(x, train=True, stream=Stream(seed).child("dropout").at(step))'
            )
        return ops.dropout(x, rate=self.rate, stream=stream)

    def kernel(self) -> str:
        return f"rate {self.rate:g}"


class Lambda(Module):
    """An op without parameters as a layer: Lambda(ops.avg_pool2d, k=2)."""

    def __init__(self, function: Op | Callable[..., Tensor], **options: Any):
        self.function, self.options = function, options

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        return self.function(x, **self.options)

    def kernel(self) -> str:
        given = {name: getattr(value, "name", value) for name, value in self.options.items() if value}
        return " ".join(name if value is True else f"{name} {value}" for name, value in given.items())


class MaxPool2d(Lambda):
    def __init__(self, k: Size, *, stride: Size | None = None, pad: Pad = 0, ceil: bool = False):
        super().__init__(ops.max_pool2d, k=k, stride=stride, pad=pad, ceil=ceil)


class AvgPool2d(Lambda):
    def __init__(
        self, k: Size, *, stride: Size | None = None, pad: Pad = 0, ceil: bool = False, count_include_pad: bool = False
    ):
        super().__init__(ops.avg_pool2d, k=k, stride=stride, pad=pad, ceil=ceil, count_include_pad=count_include_pad)


class GlobalAvgPool(Lambda):
    """(N, H, W, C) -> (N, C)."""

    def __init__(self) -> None:
        super().__init__(ops.global_avg_pool)


class Activation(Lambda):
    """An activation: Activation(ops.soft_threshold, two_sided=True, threshold=0.1).

    two_sided   whether large negative inputs pass; the analyses then let a filter fire by |response|, as the paper does
    """

    def __init__(self, function: Op | Callable[..., Tensor], *, two_sided: bool = False, **options: Any):
        super().__init__(function, **options)
        self.two_sided = two_sided


FUSED_NAMES: dict[Any, str] = {op: name for name, op in ACTIVATIONS.items()}


def _fused_name(layer: Module) -> str | None:
    """The name under which minicnn/fast/fused.py knows an activation; None if it does not."""
    if type(layer) not in (ReLU, CReLU):
        return None
    assert isinstance(layer, Activation)
    return None if layer.options else FUSED_NAMES.get(layer.function)


class ReLU(Activation):
    def __init__(self) -> None:
        super().__init__(ops.relu)


class LeakyReLU(Activation):
    def __init__(self, slope: float = 0.01):
        super().__init__(ops.leaky_relu, slope=slope)


class AVR(Activation):
    """Absolute value rectification, |x|."""

    def __init__(self) -> None:
        super().__init__(ops.avr, two_sided=True)


class CReLU(Activation):
    """[relu(x), relu(-x)]: twice the channels.  Another elementwise activation: CReLU(ops.leaky_relu, slope=0.1)."""

    def __init__(self, activation: Op = ops.relu, **options: Any):
        if activation is ops.relu:
            super().__init__(ops.crelu, two_sided=True, **options)
        else:
            super().__init__(ops.concatenated, two_sided=True, activation=activation, **options)


class Antirectifier(Activation):
    """CReLU after centring and normalising each vector of channels."""

    def __init__(self) -> None:
        super().__init__(ops.antirectifier, two_sided=True)


class Flatten(Module):
    """(N, ...) -> (N, everything else)."""

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        return ops.reshape(x, shape=(x.shape[0], math.prod(x.shape[1:])))


def _parameter(*shape: int) -> Parameter:
    return Parameter(np.zeros(shape, np.float32))


def _positive(where: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if not (isinstance(size, Integral) and size > 0):
            raise ValueError(f"{where}: {name} must be a positive integer, got {size!r}")
