"""The peak memory of training steps, measured in a process of their own (for experiments.bench)."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

MODULE = "experiments.benchmarks.memory"
STEPS = 3


def peak_memory(side: str, model: str, batch: int) -> dict[str, float]:
    """MiB: "peak" of the whole process, "imported" before the network was made."""
    line = [sys.executable, "-m", MODULE, side, model, str(batch)]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def _resident() -> float:
    """The largest amount of memory that this program has had so far, in MiB.

    Linux's own figure, where there is one: that of getrusage includes what the parent had when it started us.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def main(arguments: list[str]) -> int:
    p = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    p.add_argument("side", choices=("ours", "torch"))
    p.add_argument("model")
    p.add_argument("batch", type=int)
    args = p.parse_args(arguments)
    if args.side == "torch":
        import torch  # noqa: F401
    from experiments.benchmarks.networks import LARGEST_BATCH, MODELS, ModelCase

    if args.model not in MODELS or not 1 <= args.batch <= LARGEST_BATCH:
        p.error(f"the model is one of {', '.join(MODELS)}, and the batch in 1 .. {LARGEST_BATCH}")
    imported = _resident()
    case = ModelCase(args.model, args.batch, training=True)
    call = case.ours() if args.side == "ours" else case.torch(compiled=False, channels_last=False)
    for _ in range(STEPS):
        call()
    print(json.dumps({"peak": _resident(), "imported": imported}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
