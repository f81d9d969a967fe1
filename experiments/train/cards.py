"""The card of a network from its run: nothing in it is written by hand."""

from __future__ import annotations

from pathlib import Path

from experiments.cli.app import UsageError
from experiments.cli.progress import Progress
from experiments.train.archive import portable
from experiments.train.run import Run
from experiments.train.trained import AGREEMENT
from minicnn.data.dataset import Dataset
from minicnn.models import Classifier
from minicnn.models.pretrained import Card
from minicnn.training import evaluate


def error_of(classifier: Classifier, data: Dataset, *, training: bool = False) -> float:
    """Its error in percent on the test images, or on the training images."""
    images, labels = (data.train_images, data.train_labels) if training else (data.test_images, data.test_labels)
    with Progress(len(images), "training images" if training else "test images") as progress:
        found = evaluate(
            classifier.model, images, labels, classifier.normalise, device=classifier.device, on_batch=progress
        )
    return found.error


def card_of(run: Run, classifier: Classifier, data: Dataset, foreign: Path | None = None, command: str = "") -> Card:
    """The card of a run's network, with its test error measured anew.

    foreign    the file that its weights came from, if another program trained them; `command` then made the card
    """
    settings, test_error = run.settings, error_of(classifier, data)
    if foreign is None and abs(test_error - run.test_error) > AGREEMENT:
        raise UsageError(
            f"{run.folder} states a test error of {run.test_error:.2f} %, but its weights have {test_error:.2f} %: "
            "they are not those of its result, or its data set is another"
        )
    (builder, arguments), config = settings.network, run.config
    return Card(
        label=settings.label,
        parameters=settings.parameters,
        builder=builder,
        arguments=arguments,
        dataset=settings.dataset,
        classes=list(classifier.classes),
        train_images=len(data.train_labels) if foreign else int(config["train"]["count"]),
        test_images=len(data.test_labels),
        mean=list(classifier.normalise.mean),
        std=list(classifier.normalise.std),
        side=classifier.side,
        crop=classifier.crop,
        settings={} if foreign else settings.as_json(),
        command=portable(command or str(config.get("command", ""))),
        seconds=0.0 if foreign else run.seconds,
        computed={} if foreign else dict(config.get("environment", {})),
        train_error=error_of(classifier, data, training=True) if foreign else float(run.result["train_error"]),
        test_error=test_error,
        limits=_limits(run, classifier, foreign),
    )


def _limits(run: Run, classifier: Classifier, foreign: Path | None) -> list[str]:
    s, count = run.settings, len(classifier.classes)
    found = [
        f"It knows the {count} classes of {s.dataset} and nothing else: every picture gets one of them.",
        f"It sees the central square of a picture in {classifier.side}x{classifier.side} pixels.",
    ]
    if s.dataset == "textures":
        found.append("Textures are made by formulas: it recognises nothing that exists.")
    if foreign is not None:
        found.append(f"Another program trained it ({foreign.name}); how, and on which images, is not known here.")
        return found
    found.append(f"It is one training with seed {s.seed}; other seeds give other errors.")
    if run.reduced:
        reduced = ", ".join(run.reduced)
        found.append(f"It was not trained as in the paper, so the paper's errors do not compare with it: {reduced}.")
    return found
