"""What the tests of analyses share."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    """New for every test, so that what one draws does not depend on which others ran."""
    return np.random.default_rng(0)
