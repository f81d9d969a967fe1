"""Hypothesis profiles (HYPOTHESIS_PROFILE): dev (default), ci, few, intense.  The GPU that tests find; slow tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

from minicnn.precision import precision, use_precision
from tests import cuda_cpu

if cuda_cpu.ASKED:  # before anything imports CuPy
    cuda_cpu.install()

for name, examples in (("dev", 25), ("ci", 25), ("few", 5), ("intense", 1000)):
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,  # machines are noisy
        derandomize=name in ("ci", "few"),  # a change is judged by the change, not by the draw
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run what takes a minute or more (make slow)")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        later = pytest.mark.skip(reason="takes long: make slow runs it")
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(later)


@pytest.fixture(autouse=True)
def _precision_is_what_it_was():
    """A command with --precision sets it for the whole process."""
    with use_precision(precision()):
        yield


@pytest.fixture(autouse=True)
def _work_of_the_device_ends_with_the_test():
    """On a CPU in the place of a GPU: what a test leaves in its queues belongs to the test."""
    yield
    if cuda_cpu.ASKED:
        assert cuda_cpu.finish() is None
