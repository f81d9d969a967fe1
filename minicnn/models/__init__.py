"""The paper's networks, each a readable table; and one made for speed."""

from minicnn.models.allcnn import allcnn_b
from minicnn.models.convpool import convpool
from minicnn.models.sprint import sprint
from minicnn.models.vgg import vgg

__all__ = ["allcnn_b", "convpool", "sprint", "vgg"]
