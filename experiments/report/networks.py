"""Tables S2 to S13: every network of the supplement is built, and its parameters are counted."""

from __future__ import annotations

from typing import Any

from experiments.report.context import DATASETS, Context
from experiments.tables.html import Html, table
from experiments.train.cifar import settings
from minicnn.models import allcnn_b
from reference.paper import ARCHITECTURES, CORRECTIONS, PARAMETERS

NOT_PRINTED = "E33"  # a padding that all ImageNet tables leave out: no correction of one of them


def networks(context: Context) -> list[Html]:
    return [parameters(), corrections()]


def parameters() -> Html:
    """As printed, as corrected, and as built here; with the classes of CIFAR-10 and ImageNet."""
    counted = {(row.family, row.key): row for row in PARAMETERS if row.dataset != "cifar100"}
    lines = []
    for known in ARCHITECTURES:
        if known.table is None:
            continue
        row, ours = counted[known.family, known.key], _count(known.family, known.key)
        lines.append(
            [
                known.label,
                known.table,
                DATASETS[row.dataset],
                f"{row.printed:,}" if row.printed else "",
                f"{row.corrected:,}",
                f"{ours:,}",
                "" if row.published_millions is None else f"{row.published_millions:g} M",
                "yes" if ours == row.corrected else "NO",
            ]
        )
    head = ["network", "table", "data", "as printed", "corrected", "ours, built", "paper says", "equal"]
    return table("Tables S2 to S13: parameters of the networks", head, lines, text=(1, 2))


def _count(family: str, key: Any) -> int:
    if family == "imagenet":
        model = allcnn_b(key)
    elif family == "vgg":
        model = settings(model="vgg", act="crelu" if key else "relu", at=key).build_model()
    else:
        model = settings(act=key[0], width=key[1]).build_model()
    return sum(p.data.size for p in model.parameters())


def corrections() -> Html:
    lines = [
        [slip.erratum, str(key), slip.layer, str(slip.printed), str(slip.corrected), slip.reason]
        for (_, key), slips in CORRECTIONS.items()
        for slip in slips
        if slip.erratum != NOT_PRINTED
    ]
    head = ["erratum", "network", "layer", "printed", "corrected", "why"]
    return table("What is corrected in the tables", head, lines, text=(1, 2, 3, 4, 5))
