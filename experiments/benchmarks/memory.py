"""The peak memory of training steps.

`peak_memory` starts this file as a process of its own, `python -m experiments.benchmarks.memory ours vgg 128`, because
a process keeps its peak: what ran in it before would be counted, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from experiments.benchmarks.contenders import FRAMEWORKS, variants
from experiments.benchmarks.networks import LARGEST_BATCH, MODELS, NetworkCase
from experiments.cli.environment import own_program

MODULE = "experiments.benchmarks.memory"
STEPS = 3


def peak_memory(side: str, model: str, batch: int) -> dict[str, float]:
    """MiB: "peak" of the whole process, "imported" before the network was built."""
    line, place = own_program(MODULE)
    line += [side, model, str(batch)]
    done = subprocess.run(line, check=True, capture_output=True, text=True, env={**os.environ, **place})
    return json.loads(done.stdout.splitlines()[-1])


def _resident() -> float:
    """The most memory that this process has had so far, in MiB.

    On Linux from /proc: the number that getrusage gives includes what the parent had when it started us.
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
    p.add_argument("side", choices=FRAMEWORKS)
    p.add_argument("model", choices=MODELS, metavar="model")
    p.add_argument("batch", type=int)
    args = p.parse_args(arguments)
    if not 1 <= args.batch <= LARGEST_BATCH:
        p.error(f"the batch must be in 1 .. {LARGEST_BATCH}, got {args.batch}")
    contenders = [contender for contender in variants(args.side) if "training" in contender.kinds]
    if not contenders:
        p.error(f"{FRAMEWORKS[args.side].title} is not installed, or does not train")
    imported = _resident()
    step = contenders[0].network(NetworkCase(args.model, args.batch, training=True))
    for _ in range(STEPS):
        step()
    print(json.dumps({"peak": _resident(), "imported": imported}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
