"""Hypothesis profiles: dev (default), ci, intense.  HYPOTHESIS_PROFILE chooses.  And the GPU that tests may find."""

import os

from tests import cuda_cpu

if cuda_cpu.ASKED:  # before anything imports CuPy
    cuda_cpu.install()

from hypothesis import HealthCheck, settings

for name, examples in (("dev", 25), ("ci", 25), ("intense", 1000)):
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,  # machines are noisy
        derandomize=name == "ci",  # a change is judged by the change, not by the draw
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
