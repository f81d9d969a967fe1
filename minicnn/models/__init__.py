"""The paper's networks, each a readable table; one made for speed; and trained ones, by name."""

from minicnn.models.allcnn import allcnn_b
from minicnn.models.classifier import Classifier
from minicnn.models.convpool import convpool
from minicnn.models.pretrained import pretrained
from minicnn.models.sprint import sprint
from minicnn.models.vgg import vgg

__all__ = ["Classifier", "allcnn_b", "convpool", "pretrained", "sprint", "vgg"]
