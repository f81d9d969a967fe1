"""Convolution filters from files of other programs: .npz, .safetensors, .pth (PyTorch); as (kh, kw, C, K) arrays.

**Layout.**  minicnn's files hold filters as HWIO = (kh, kw, in, out), PyTorch's as OIHW = (out, in, kh, kw).  The user
names the layout of a file (`--layout`), or it is found: kernels are square and at most 15 wide, so a shape (a, b, c, d)
can be HWIO if a = b <= 15 and OIHW if c = d <= 15.  Exactly one layout must fit all arrays of four axes in the file,
else the user has to choose.  Arrays with other numbers of axes (biases, matrices) are not filters and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.cli.app import UsageError
from minicnn.data.dataset import DataError
from minicnn.exchange import read_arrays
from minicnn.training import arrays_under

LAYOUTS = {"hwio": (0, 1, 2, 3), "oihw": (2, 3, 1, 0)}  # the axes of kh, kw, in, out
LARGEST_KERNEL = 15


def read_filters(path: Path, layout: str | None = None) -> dict[str, np.ndarray]:
    """{name: filters (kh, kw, C, K) float64} of every convolution in a file; UsageError if it has none to give."""
    try:
        arrays = read_arrays(path)
    except DataError as error:
        raise UsageError(str(error)) from None
    arrays = arrays_under("model/", arrays) or arrays  # a checkpoint of ours also has the optimiser's arrays
    names = [name for name, array in arrays.items() if array.ndim == 4 and array.dtype.kind == "f"]
    filters = {_name(name): arrays[name] for name in names}
    if len(filters) < len(names):
        raise UsageError(f"{path} holds two arrays for one layer, under different names: {', '.join(names)}")
    if not filters:
        raise UsageError(f"{path} holds no filters: no array of four axes among {', '.join(arrays) or 'no arrays'}")
    axes = LAYOUTS[layout or detect_layout(path, {name: w.shape for name, w in filters.items()})]
    broken = [name for name, w in filters.items() if not np.isfinite(w).all()]
    if broken:
        raise UsageError(f"{path} holds NaN or inf in {', '.join(broken)}")
    return {name: w.transpose(axes).astype(np.float64) for name, w in filters.items()}


def detect_layout(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """ "hwio" or "oihw", by the rule at the top of this file."""

    def fits(first: int) -> bool:
        return all(s[first] == s[first + 1] <= LARGEST_KERNEL for s in shapes.values())

    possible = [name for name, first in (("hwio", 0), ("oihw", 2)) if fits(first)]
    if len(possible) == 1:
        return possible[0]
    shown = ", ".join(f"{name} {shape}" for name, shape in list(shapes.items())[:4])
    why = "fit both layouts" if possible else "fit neither layout with square kernels"
    raise UsageError(f"{path}: the shapes ({shown}) {why}; say --layout oihw (PyTorch) or --layout hwio (minicnn)")


def _name(name: str) -> str:
    """ "conv1" for conv1.weight, conv1_w, conv1/kernel and the like."""
    return re.sub(r"[._/](w|weight|kernel)$", "", name)
