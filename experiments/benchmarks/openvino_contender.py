"""OpenVINO in experiments.bench, on the CPU, in float32 or bf16.  This file needs onnx and openvino."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import openvino

from experiments.benchmarks.contenders import Contender
from experiments.benchmarks.layers import IMAGES
from experiments.benchmarks.networks import NetworkCase
from experiments.benchmarks.timing import Call
from minicnn.exchange import onnx_model
from minicnn.parallel import threads

NAMES = {"float32": "f32", "bf16": "bf16"}  # of our precisions in OpenVINO


@dataclass(frozen=True)
class OpenVino(Contender):
    kinds: tuple[str, ...] = ("inference",)

    def obstacle(self) -> str:
        """OpenVINO would silently compute in float32 where the processor has no bf16."""
        able = self.precision == "float32" or "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        return "" if able else "OpenVINO knows no bf16 instructions of this processor"

    def network(self, case: NetworkCase) -> Call:
        images = np.ascontiguousarray(case.x.transpose(IMAGES))
        options = {
            "PERFORMANCE_HINT": "LATENCY",  # all threads for one batch
            "INFERENCE_NUM_THREADS": threads(),
            "INFERENCE_PRECISION_HINT": NAMES[self.precision],
        }
        core = openvino.Core()
        model = core.read_model(onnx_model(case.network.build(), case.x.shape[1:], batch=case.batch))
        request = core.compile_model(model, "CPU", options).create_infer_request()
        request.set_input_tensor(openvino.Tensor(images))  # a copy: it would not keep ours alive

        def infer() -> list[Any]:
            request.infer()
            return [request.get_output_tensor().data]

        return infer


VARIANTS = (OpenVino("OpenVINO"), OpenVino("OpenVINO", precision="bf16"))
