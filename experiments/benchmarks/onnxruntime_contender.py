"""ONNX Runtime in experiments.bench, on the CPU.  This file needs onnx and onnxruntime.

Its threads wait for work in a busy loop, which is faster on idle cores and slower on busy ones; so both ways take part.
The loop goes on for some time after a call: with no pause between contenders, ours took twice as long after it, with
timing.PAUSE no longer than elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime

from experiments.benchmarks.contenders import Contender
from experiments.benchmarks.layers import IMAGES
from experiments.benchmarks.networks import NetworkCase
from experiments.benchmarks.timing import Call
from minicnn.exchange import onnx_model
from minicnn.parallel import threads


@dataclass(frozen=True)
class OnnxRuntime(Contender):
    kinds: tuple[str, ...] = ("inference",)
    spinning: bool = True

    def network(self, case: NetworkCase) -> Call:
        images = np.ascontiguousarray(case.x.transpose(IMAGES))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", str(int(self.spinning)))
        model = onnx_model(case.network.build(), case.x.shape[1:], batch=case.batch)
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

        def infer() -> list[Any]:
            return session.run(None, {"images": images})

        return infer


VARIANTS = (
    OnnxRuntime("ONNX Runtime", "spinning"),
    OnnxRuntime("ONNX Runtime", "sleeping", spinning=False),
)
