"""What the derivative of a convolution or of a linear layer keeps in memory until it is called."""

import gc
import types

import numpy as np
import pytest

from minicnn import Tape, ops
from minicnn.fast.cpu import im2col, linear, taps, winograd, winograd_wide
from minicnn.fast.cuda import im2col as cuda_im2col
from minicnn.fast.cuda import winograd as cuda_winograd
from minicnn.fast.native import im2col as native_im2col
from minicnn.fast.native import pool as native_pool
from minicnn.fast.native import winograd as native_winograd
from tests.cuda_shim.shim import needs_compiler
from tests.devices import standin_with_kernels
from tests.fast.native.ways import needs_compiler as needs_c_compiler

RNG = np.random.default_rng(0)
IMAGES, FILTERS, BIAS = RNG.normal(size=(3, 8, 8, 16)), RNG.normal(size=(3, 3, 16, 20)), RNG.normal(size=20)
U = 36 * 16 * 20 * 8  # bytes: 36 places, channels, filters, float64


def owners(vjp):
    """The memory that a derivative can reach: id -> bytes, of the arrays that own it."""
    found, seen, ahead = {}, set(), [vjp]
    while ahead:
        thing = ahead.pop()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            while isinstance(thing.base, np.ndarray):
                thing = thing.base
            found[id(thing)] = thing.nbytes
        elif isinstance(thing, types.FunctionType):  # not its globals
            ahead += [cell.cell_contents for cell in thing.__closure__ or ()]
        else:
            ahead += gc.get_referents(thing)
    return found


def kept(version, *arrays, **static):
    """How many bytes the derivative keeps beside its arguments, and which of these: a flag for each."""
    _, vjp = version(*arrays, **static)
    found = owners(vjp)
    given = [set(owners(array)) for array in arrays]
    flags = tuple(bool(own & set(found)) for own in given)
    return sum(size for key, size in found.items() if key not in set().union(*given)), flags


SMALL = 4096  # bytes: shapes, and the matrices of Winograd's transforms, which all layers share


IN_C = [pytest.param(f, marks=needs_c_compiler) for f in (native_im2col.conv2d, native_winograd.conv2d)]


@pytest.mark.parametrize(
    "version", [ops.conv2d.textbook, im2col.conv2d, winograd.conv2d, winograd_wide.conv2d, taps.conv2d, *IN_C]
)
def test_on_the_cpu_a_convolution_keeps_its_arguments_alone(version):
    """Neither its output, nor columns, nor transformed images or filters."""
    size, (image, filters, _) = kept(version, IMAGES, FILTERS, BIAS, pad=1)
    assert size <= SMALL
    assert image
    assert filters


@pytest.mark.parametrize("version", IN_C)
@pytest.mark.parametrize(("activation", "halves"), [("relu", 1), ("crelu", 2)])
def test_with_its_activation_a_convolution_keeps_what_leaves_both(version, activation, halves):
    """What lies between the two is nowhere."""
    size, (image, filters, _) = kept(version, IMAGES, FILTERS, BIAS, pad=1, activation=activation)
    y = 3 * 8 * 8 * 20 * 8 * halves  # bytes
    assert y <= size <= y + SMALL
    assert image
    assert filters


@needs_c_compiler
def test_max_pooling_keeps_a_byte_for_each_maximum():
    with Tape():
        size, (image,) = kept(native_pool.max_pool2d, IMAGES, k=2)
    assert 3 * 4 * 4 * 16 <= size <= 3 * 4 * 4 * 16 + 100
    assert not image


def test_without_a_kernel_to_slide_the_same():
    for version in (ops.conv2d.textbook, im2col.conv2d):
        for pad in (0, 1):
            assert kept(version, IMAGES, FILTERS[:1, :1].copy(), BIAS, pad=pad)[0] <= SMALL
    x, w = IMAGES[:, 0, 0].copy(), FILTERS[0, 0].copy()
    for version in (ops.linear.textbook, linear.linear):
        size, (image, filters, _) = kept(version, x, w, BIAS)
        assert size == 0
        assert image
        assert filters


@needs_compiler
@pytest.mark.parametrize(("version", "more"), [(cuda_im2col.conv2d, 0), (cuda_winograd.conv2d, U)])
def test_on_a_gpu_winograd_keeps_the_transformed_filters_too(version, more):
    with standin_with_kernels() as device:
        size, (image, filters, _) = kept(version, *map(device.put, (IMAGES, FILTERS, BIAS)), pad=1)
    assert more <= size <= more + SMALL
    assert image
    assert filters
