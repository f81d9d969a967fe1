"""The paper's networks, each a readable table."""

from minicnn.models.convpool import convpool
from minicnn.models.vgg import vgg

__all__ = ["convpool", "vgg"]
