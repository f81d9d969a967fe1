"""minicnn.cuda.Cuda for the stand-in: kernels run on the shim, copies on other streams come as late as they may."""

from contextlib import contextmanager

import numpy as np

from tests.cuda_shim.shim import ShimModule
from tests.standin_array import launched, launches


class ShimCuda:
    def __init__(self, free=1 << 33):
        self.free, self.log, self.compute, self.ranges = free, [], Stream("compute", self), []

    def module(self, source, options):
        return ShimModule(source, options)

    def handle(self, function):
        return None  # every launch is looked at

    def product(
        self, dtype, rows, inner, columns, *, stack=1, transpose_a=False, transpose_b=False, precision="float32"
    ):
        of_a, of_b = (
            (inner, rows) if transpose_a else (rows, inner),
            (columns, inner) if transpose_b else (inner, columns),
        )

        def multiply(a, b, out):
            assert a.dtype == b.dtype == out.dtype == dtype
            assert all(x.flags.c_contiguous for x in (a, b, out))  # a GPU would read something else
            shaped = ((a, of_a), (b, of_b), (out, (rows, columns)))
            left, right, there = (x._host.reshape(stack, *shape) for x, shape in shaped)
            left, right = left.swapaxes(1, 2) if transpose_a else left, right.swapaxes(1, 2) if transpose_b else right
            np.matmul(left, right, out=there)
            launched("matmul")

        return multiply

    def capture(self, work):
        raise NotImplementedError("the stand-in cannot be captured")

    def room_for_a_graph(self):
        return False

    def pinned(self, size):
        return np.full(size, 0xAA, np.uint8)

    def new_stream(self):
        return Stream("copy", self)

    def current_stream(self):
        return self.compute

    @contextmanager
    def range(self, name):
        """Notes (name, what was started within)."""
        first = len(launches)
        yield
        self.ranges.append((name, launches[first:]))

    def free_bytes(self):
        return self.free


class Stream:
    """Copies wait in a queue until somebody waits for an event behind them; what happens is noted in cuda.log."""

    def __init__(self, name, cuda):
        self.name, self.cuda, self.queue = name, cuda, []

    def copy(self, there, here):
        def work():
            there._host[...] = here

        self.queue.append(work)
        self.cuda.log.append((self.name, "copy", there._host.ctypes.data))

    def record(self):
        event = Event(self)
        self.queue.append(event)
        self.cuda.log.append((self.name, "record", event))
        return event

    def wait_event(self, event):
        self.cuda.log.append((self.name, "wait", event))
        event.reach()


class Event:
    def __init__(self, stream):
        self.stream = stream

    def reach(self):
        """Do all that was queued before this event."""
        while self in self.stream.queue:
            work = self.stream.queue.pop(0)
            if callable(work):  # and no event
                work()

    def synchronize(self):
        self.stream.cuda.log.append(("host", "wait", self))
        self.reach()
