"""Layers and models: named trees of parameters around the ops."""

from minicnn.nn import init
from minicnn.nn.average import EMA
from minicnn.nn.layers import (
    AVR,
    Activation,
    Antirectifier,
    AvgPool2d,
    BatchNorm,
    Conv2d,
    CReLU,
    Dropout,
    Flatten,
    GlobalAvgPool,
    Lambda,
    LeakyReLU,
    Linear,
    MaxPool2d,
    ReLU,
)
from minicnn.nn.module import Module, Residual, Sequential
from minicnn.nn.summary import Summary, describe, summary

__all__ = [
    "AVR",
    "EMA",
    "Activation",
    "Antirectifier",
    "AvgPool2d",
    "BatchNorm",
    "CReLU",
    "Conv2d",
    "Dropout",
    "Flatten",
    "GlobalAvgPool",
    "Lambda",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "Module",
    "ReLU",
    "Residual",
    "Sequential",
    "Summary",
    "describe",
    "init",
    "summary",
]
