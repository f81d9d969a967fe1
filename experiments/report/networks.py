"""Tables S2 to S13: every network of the supplement is built, and its parameters are counted."""

from __future__ import annotations

from typing import Any

from experiments.report.context import DATASETS, Context, Parts
from experiments.tables.table import Column, Table
from experiments.train.cifar import CifarSettings
from experiments.train.imagenet import ImagenetSettings
from reference.paper import ARCHITECTURES, CORRECTIONS, PARAMETERS

ACTIVATIONS = {"relu": "ReLU", "crelu": "CReLU"}
NOT_PRINTED = "E33"  # a padding that all ImageNet tables leave out, so not a correction of one table


def networks(context: Context) -> Parts:
    return [parameters(), corrections()]


def parameters() -> Table:
    """Counts as printed, as corrected, and as built here, with the classes of CIFAR-10 and ImageNet."""
    counted = {(row.family, row.key): row for row in PARAMETERS if row.dataset != "cifar100"}
    lines = []
    for known in ARCHITECTURES:
        if known.table is None:
            continue
        row, ours = counted[known.family, known.key], _count(known.family, known.key)
        published = "" if row.published_millions is None else f"{row.published_millions:g} M"
        counts = [row.printed or "", row.corrected, ours, published, "yes" if ours == row.corrected else "NO"]
        lines.append([known.label, known.table, DATASETS[row.dataset], *counts])
    heads = [Column("network"), Column("table", words=True), Column("data", words=True)]
    heads += [Column(name, ",") for name in ("as printed", "corrected", "ours, built")]
    return Table([*heads, Column("paper says"), Column("equal")], lines, "Tables S2 to S13: parameters of the networks")


def _count(family: str, key: Any) -> int:
    if family == "imagenet":
        return ImagenetSettings.of(variant=key).parameters
    if family == "vgg":
        return CifarSettings.of(model="vgg", act="crelu" if key else "relu", at=key).parameters
    return CifarSettings.of(act=key[0], width=key[1]).parameters


def _in_words(printed: Any) -> str:
    """A cell of a table of the supplement: the shape of a kernel, or an activation."""
    return "x".join(map(str, printed)) if isinstance(printed, tuple) else ACTIVATIONS[printed]


def corrections() -> Table:
    labels = {(known.family, known.key): known.label for known in ARCHITECTURES}
    lines = [
        [slip.erratum, labels[network], slip.layer, _in_words(slip.printed), _in_words(slip.corrected), slip.reason]
        for network, slips in CORRECTIONS.items()
        for slip in slips
        if slip.erratum != NOT_PRINTED
    ]
    heads = [
        Column("erratum"),
        *(Column(name, words=True) for name in ("network", "layer", "printed", "corrected", "why")),
    ]
    return Table(heads, lines, "What is corrected in the tables")
