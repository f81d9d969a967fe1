"""ONNX Runtime in experiments.bench, on the CPU.  This file needs onnx and onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime

from experiments.benchmarks.contenders import Contender
from experiments.benchmarks.layers import IMAGES
from experiments.benchmarks.networks import NetworkCase
from experiments.benchmarks.onnx_twin import onnx_twin
from experiments.benchmarks.timing import Call
from minicnn.parallel import threads


@dataclass(frozen=True)
class OnnxRuntime(Contender):
    kinds: tuple[str, ...] = ("inference",)

    def network(self, case: NetworkCase) -> Call:
        images = np.ascontiguousarray(case.x.transpose(IMAGES))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads()
        model = onnx_twin(case.network.build(), images.shape)
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

        def infer() -> list[Any]:
            return session.run(None, {"images": images})

        return infer


VARIANTS = (OnnxRuntime("ONNX Runtime"),)
