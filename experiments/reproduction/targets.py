"""Every table, figure and theorem of the paper by name: what it is, and the steps that it takes at a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.cli.app import UsageError, counted
from experiments.cli.parser import did_you_mean
from experiments.reproduction.scales import Pair, Scale
from experiments.reproduction.steps import PICTURES, Analysis, Step, Training

ALEXNET = "pairing-alexnet"  # the step that looks at the user's AlexNet
GENERATE = Analysis(PICTURES, "experiments.photos")


@dataclass(frozen=True)
class Files:
    """What the user has: a folder with ImageNet, the filters of an AlexNet."""

    imagenet: Path | None = None
    alexnet: Path | None = None


def has_photographs(scale: Scale, files: Files) -> bool:
    """Whether there is something to train ImageNet's networks on."""
    return files.imagenet is not None or scale.generated


@dataclass(frozen=True)
class Target:
    """`steps` gives the steps that it takes; `also` lists its other names."""

    name: str
    what: str
    steps: Callable[[Scale, Files], list[Step]]
    also: tuple[str, ...] = ()


def table1(scale: Scale, files: Files) -> list[Step]:
    return [*scale.table1]


def table2(scale: Scale, files: Files) -> list[Step]:
    return [*scale.table2]


def table4(scale: Scale, files: Files) -> list[Step]:
    return photo_trainings(scale, files, scale.table4)


def photo_trainings(scale: Scale, files: Files, of: Sequence[Training]) -> list[Step]:
    """Trainings on photographs, after the step that generates these, if any; none where there are no photographs."""
    return [*([GENERATE] if scale.generated else []), *of] if has_photographs(scale, files) else []


def controls(scale: Scale, files: Files) -> list[Step]:
    """Seed by seed, so that an interruption leaves networks that can be compared."""
    found = [one for control in scale.controls for one in control.trainings]
    return [*sorted(found, key=lambda training: training.settings.seed)]


def pairing(scale: Scale, pair: Pair) -> Analysis:
    return _analysis("pairing", pair, (pair.relu, pair.crelu), makes=("{}/histograms.png",))


def correlation(scale: Scale, pair: Pair) -> Analysis:
    return _analysis("correlation", pair, (pair.crelu,), makes=("correlation.csv", "correlation.png"))


def invariance(scale: Scale, pair: Pair) -> Analysis:
    some = scale.invariance and not pair.crelu.generated  # all of the generated pictures: they are few
    options = ("--subset", str(scale.invariance)) if some else ()
    makes = ("invariance.csv", "invariance.png")
    return _analysis("invariance", pair, (pair.relu, pair.crelu), options, images=True, makes=makes)


def reconstruction(scale: Scale, pair: Pair) -> Analysis:
    options = ("--subset", str(scale.ratios), "--count", str(scale.shown))
    return _analysis("reconstruction", pair, (pair.crelu,), options, images=True, makes=("{}-images.png",))


def _analysis(
    kind: str,
    pair: Pair,
    of: tuple[Training, ...],
    options: tuple[str, ...] = (),
    *,
    images: bool = False,
    makes: Sequence[str],
) -> Analysis:
    """experiments.<kind> on networks of a pair; {} in a file name stands for the name of a network."""
    called = [training.name + ("-final" if training.protocol == "single" else "") for training in of]
    return Analysis(
        name=f"{kind}-{pair.name}",
        module=f"experiments.{kind}",
        options=options,
        of=of,
        data=pair.crelu.data if images else "",
        makes=tuple(dict.fromkeys(name.format(network) for name in makes for network in called)),
        pictures=images and pair.crelu.generated,
    )


def on_pairs(analysis: Callable[[Scale, Pair], Analysis], *, photographs: bool) -> Callable[[Scale, Files], list[Step]]:
    """An analysis of every pair, after its trainings; with `photographs`, also of the pair of ImageNet networks."""

    def steps(scale: Scale, files: Files) -> list[Step]:
        found: list[Step] = []
        for pair in scale.pairs:
            step = analysis(scale, pair)
            found += [*step.of, step]
        if photographs and has_photographs(scale, files):
            step = analysis(scale, scale.photo_pair)
            found += [*photo_trainings(scale, files, step.of), step]
        return found

    return steps


def alexnet(scale: Scale, files: Files) -> list[Step]:
    """The filters of an AlexNet, where they are given, and of our own ReLU networks."""
    own = on_pairs(pairing, photographs=False)(scale, files)
    if files.alexnet is None:
        return own
    makes = tuple(f"{files.alexnet.stem}/{name}" for name in ("summary.json", "histograms.png", "filters.png"))
    given = Analysis(ALEXNET, "experiments.pairing", ("--draws", "20"), file=files.alexnet, makes=makes)
    return [given, *own]


def theory(scale: Scale, files: Files) -> list[Step]:
    return [Analysis("theory", "experiments.theory", ("--figures",), makes=("results.json",))]


def nothing(scale: Scale, files: Files) -> list[Step]:
    return []


_SUPPLEMENT = tuple(f"tableS{n}" for n in range(2, 14))

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("table1", "CIFAR-10 and CIFAR-100: ReLU, AVR and CReLU networks", table1),
        Target("table2", "CIFAR with the deeper network, VGG", table2),
        Target("table3", "comparison with others on CIFAR, from the runs of table2", table2),
        Target("table4", "ImageNet: All-CNN-B with ReLU, AVR and CReLU", table4),
        Target("table5", "comparison with others on ImageNet, from the runs of table4", table4),
        Target("table6", "correlation of outgoing weights", on_pairs(correlation, photographs=True)),
        Target("tableS1", "reconstruction ratios after max pooling", on_pairs(reconstruction, photographs=False)),
        Target("networks", "the networks of Tables S2 to S13, their parameters counted", nothing, _SUPPLEMENT),
        Target("gap", "section 4.1: training and test error, from the runs of table1", table1, ("section4.1",)),
        Target("controls", "what explains comparisons of table1: equal size, equal time, the start", controls),
        Target("figure1", "filters of AlexNet beside their pairing filters (--alexnet)", alexnet),
        Target("figure2", "histograms of the cosines of pairs, AlexNet (--alexnet)", alexnet),
        Target("figure3", "the same for networks with CReLU", on_pairs(pairing, photographs=True)),
        Target("figure4", "invariance scores", on_pairs(invariance, photographs=True)),
        Target(
            "figure5", "images reconstructed from features", on_pairs(reconstruction, photographs=True), ("figureS2",)
        ),
        Target("theory", "every theorem, lemma and computable claim, with a verdict", theory),
    )
}
ALL = "all"


def chosen(names: Iterable[str]) -> list[Target]:
    """The targets with these names, or aliases, in the paper's order."""
    by_name = {name.lower(): target for target in TARGETS.values() for name in (target.name, *target.also)}
    wanted = [name.lower() for name in names]
    if unknown := [name for name in wanted if name not in by_name and name != ALL]:
        spelt = [name for target in TARGETS.values() for name in (target.name, *target.also)]
        meant = did_you_mean(unknown[0], [*spelt, ALL]) or f"; there are {', '.join(TARGETS)} and {ALL}"
        raise UsageError(f"no target {', '.join(unknown)}{meant}")
    found = {by_name[name].name for name in wanted if name != ALL}
    return [target for target in TARGETS.values() if target.name in found or ALL in wanted]


def steps_of(targets: Iterable[Target], scale: Scale, files: Files) -> list[Step]:
    """The steps of these targets, each once, in an order in which they can be done.

    Networks are analysed as soon as they are trained: an interruption leaves pairs that are known in full.
    """
    found: dict[str, Step] = {}
    for target in targets:
        for step in target.steps(scale, files):
            found.setdefault(step.name, step)
    place = {name: i for i, name in enumerate(found)}

    def when(step: Step) -> tuple[bool, int, bool]:
        of = [place[training.name] for training in step.of] if isinstance(step, Analysis) else []
        return step.name != PICTURES, max(of, default=place[step.name]), isinstance(step, Analysis)

    return sorted(found.values(), key=when)


def listing(scale: Scale, files: Files) -> str:
    rows = []
    for target in TARGETS.values():
        steps = target.steps(scale, files)
        runs = sum(isinstance(step, Training) for step in steps)
        analyses = sum(isinstance(step, Analysis) and bool(step.makes) for step in steps)
        names = target.name + (f" ({target.also[0]}{' ...' if target.also[1:] else ''})" if target.also else "")
        amounts = [counted(runs, "run") if runs else "", counted(analyses, "analysis", "analyses") if analyses else ""]
        needs = ", ".join(filter(None, amounts)) or "nothing"
        rows.append([names, needs, target.what])
    width = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    lines = [f"{name:{width[0]}}  {needs:{width[1]}}  {what}" for name, needs, what in rows]
    return f"Scale {scale.name}: {scale.what}.\n\n" + "\n".join(lines) + f"\n{'all':{width[0]}}  everything"
