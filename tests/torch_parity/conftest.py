"""What every comparison runs in: both precisions, and both versions of the ops that have a faster one."""

import numpy as np
import pytest


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture(params=["textbook", "dispatch"])
def version(request, monkeypatch):
    """minicnn/ops as it is written, or whatever minicnn/fast/dispatch.py chooses."""
    monkeypatch.setenv("MINICNN_FAST", "0" if request.param == "textbook" else "1")
    return request.param
