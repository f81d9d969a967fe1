"""Kernels that look at the types of their arguments.  CUDA gets addresses of values, and would take anything."""

from functools import cache

import numpy as np

from tests.cuda_shim.shim import DTYPES, signatures

signatures = cache(signatures)


class StrictModule:
    """A cupy.RawModule whose functions check what they are given."""

    def __init__(self, source, options):
        import cupy

        self.module = cupy.RawModule(code=source, options=options)
        self.signatures = signatures(source, options)

    def get_function(self, name):
        return StrictFunction(name, self.module.get_function(name), self.signatures[name])


class StrictFunction:
    """A cupy.RawKernel that checks what it is given."""

    def __init__(self, name, function, signature):
        self.name, self.function, self.signature = name, function, signature

    def __call__(self, grid, block, arguments):
        check(self.name, self.signature, arguments)
        self.function(grid, block, arguments)

    @property
    def kernel(self):
        return self.function.kernel


def check(name, signature, arguments):
    """The number of arguments, the dtype behind every pointer and the width of every number are those of the kernel."""
    assert len(arguments) == len(signature), f"{name}: {len(arguments)} arguments, it takes {len(signature)}"
    for position, (value, (kind, pointer)) in enumerate(zip(arguments, signature, strict=True)):
        where = f"{name}, argument {position}"
        if pointer and isinstance(value, np.generic):
            assert (value.dtype, value) == (np.uint64, 0), f"{where}: {value!r} for a pointer"
        elif pointer:
            assert value.dtype == DTYPES[kind], f"{where}: {value.dtype} for {kind}*"
            assert value.flags.c_contiguous, f"{where}: not in C order"
        else:
            assert isinstance(value, np.generic), f"{where}: {type(value)} for {kind}"
            assert value.dtype == DTYPES[kind], f"{where}: {value.dtype} for {kind}"
