"""How long the program needs for a training step on a GPU, if the GPU needed no time at all.

    MINICNN_CUDA_CPU_POOL=1 python -m tests.cuda_cpu.host_time

CReLU (half) at batch 128, plainly and as a graph, on a CPU in the place of a GPU whose launches do nothing.  The two
take turns, and what is counted is the time of this thread on a core, from one step to the next.  Other programs still
disturb it, because they empty the caches: the least of many steps is what an idle machine would need.
"""

import os
import time

import numpy as np

from tests import cuda_cpu

EPOCHS, STEPS, BATCH = 40, 20, 128


def main():
    assert not cuda_cpu.GUARDED, "set MINICNN_CUDA_CPU_POOL=1: without CuPy's pool, no memory is freed here"
    cuda_cpu.install()
    from minicnn import backend, models, training
    from minicnn.cuda import CupyCuda
    from minicnn.fast import graph
    from minicnn.optim import SGD
    from minicnn.training import Trainer
    from tests.fast.cuda.test_training import source

    CupyCuda.module = lambda self, text, options: self.cupy.RawModule(
        code=text, options=options
    )  # looks at no arguments
    Trainer._fetch = lambda self, pending: pending.clear()  # there are no numbers,
    training._check_start = lambda model: None  # neither in the weights
    graph._same_bits = lambda a, b: True  # nor any to compare

    def trainer():
        model = models.convpool("crelu", "half").initialise(0)
        optimiser = SGD(model.parameters(), 1e-3, momentum=0.9, weight_decay=1e-3)
        return Trainer(model, optimiser, source(STEPS * BATCH, BATCH, 32, 10), device=backend.device("gpu"), seed=0)

    starts, train = [], Trainer._train

    def noted(self, *batch):
        starts.append(time.thread_time())
        return train(self, *batch)

    Trainer._train = noted
    kinds = {"plain": ("0", trainer()), "graph": ("1", trainer())}
    times = {name: [] for name in kinds}
    with cuda_cpu.order("never"):
        for epoch in range(1 + EPOCHS):
            for name, (switch, one) in kinds.items():
                os.environ["MINICNN_GRAPH"] = switch
                record = cuda_cpu.Record()
                starts.clear()
                one.finish_epoch()
                if epoch:  # the first compiles, and captures
                    times[name].extend(np.diff(starts))
                launches = len(record.launches) / STEPS
                if epoch == EPOCHS:
                    best, middle = 1e3 * min(times[name]), 1e3 * np.median(times[name])
                    print(f"{name}  {best:.2f} ms a step at best, {middle:.2f} in the middle, {launches:g} launches")


if __name__ == "__main__":
    main()
