"""The paper's networks, each a readable table."""

from minicnn.models.allcnn import allcnn_b
from minicnn.models.convpool import convpool
from minicnn.models.vgg import vgg

__all__ = ["allcnn_b", "convpool", "vgg"]
