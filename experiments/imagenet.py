"""Train the paper's ImageNet networks (Table 4), evaluate them, and ask them about photographs of your own.

examples:
  python -m experiments.imagenet --variant crelu-conv1-4 --data imagenet --device gpu     as in the paper
  python -m experiments.imagenet --variant crelu-all --data imagenet --bad-images skip    leave damaged files out
  python -m experiments.imagenet --variant baseline --dry-run               the network, schedule and cost; no data
  python -m experiments.imagenet --data flowers --scale 0.1 --epochs 5      any folder with one folder per class; a
                                                                            tenth of each width, a shortened schedule
  mpiexec -n 4 python -m experiments.imagenet --data imagenet               on four GPUs or machines (docs/cluster.md)
  python -m experiments.imagenet --run runs/crelu --data imagenet           evaluate a run: 1 crop and 10 crops
  python -m experiments.imagenet --run runs/crelu --image cat.jpg           what does it see?

The data: DIR/train/<class>/*.JPEG and DIR/val, with one folder per class or flat with ILSVRC's file of labels; or
DIR/<class>/*.jpg, where every tenth file is kept for validation.  Pictures are decoded by --workers processes:
shorter side to 256, random crops of 224, flips, colour noise.

The paper trained (all) and (conv1,4,7) with Adam for 100 epochs and the others with SGD for 45; --recipe changes that.

A run writes runs/<name>/: config.json, metrics.csv, checkpoint.npz, result.json.  Ctrl-C saves it, even within
an epoch, and the same command with --resume continues from there, with the same result as if it had never stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError, command, counted, get_device, hint, interruptible
from experiments.cli.files import write_json
from experiments.cli.ranks import cores_of_a_rank, run_on_ranks
from experiments.cli.values import picture_file
from experiments.tables.table import Table
from experiments.train.estimate import announce
from experiments.train.folder import at_chance, closing
from experiments.train.imagenet import TRAIN_IMAGES, ImagenetSettings
from experiments.train.photographs import PhotoJob, evaluate_pictures, read_colours
from experiments.train.run import Run, open_run
from experiments.train.session import run_job
from experiments.train.settings import asked_settings, note_resume, output_options, training_parser
from minicnn.backend import Device
from minicnn.cluster import ALONE, Communicator
from minicnn.data.decode import printable
from minicnn.data.folders import PictureSet, picture_set
from minicnn.data.photographs import BadImages
from minicnn.data.workers import Decoders
from reference.paper import imagenet_result

MODULE = ImagenetSettings.MODULE
SHOWN = 5  # classes in a prediction


def parser() -> argparse.ArgumentParser:
    p, groups = training_parser(ImagenetSettings, __doc__)
    data = groups["data"]
    data.add_argument("--data", type=Path, metavar="DIR", help="folder with train/ and val/, or one folder per class")
    data.add_argument("--val-labels", type=Path, metavar="FILE", help="labels of a flat val/ (default: found there)")
    data.add_argument("--workers", type=int, help="decoding processes (default: one per core of this rank)")
    use = p.add_argument_group("use of a trained network")
    use.add_argument("--run", type=Path, metavar="DIR", help="a run to evaluate on the validation set of --data")
    use.add_argument(
        "--image", type=picture_file, action="append", default=[], metavar="FILE", help="recognise it with --run"
    )
    use.add_argument("--crops", type=int, choices=(1, 10), default=10, help="10: also average over ten crops (default)")
    out = output_options(p)
    out.add_argument("--save-every", type=int, metavar="N", help="steps between checkpoints (1000)")
    return p


def main(arguments: list[str], cluster: Communicator = ALONE) -> int:
    args = parser().parse_args(arguments)
    check_use(args)
    args.workers = cores_of_a_rank(cluster) if args.workers is None else args.workers
    args.save_every = 1000 if args.save_every is None else args.save_every
    if args.workers < 1 or args.save_every < 1:
        raise UsageError("--workers and --save-every must be positive")
    device = get_device(args.device, cluster, products=args.precision)
    if args.run:
        return use(args, device, cluster)
    asked: ImagenetSettings = asked_settings(ImagenetSettings, args)
    if args.dry_run:
        say(asked, args, device, args.subset or TRAIN_IMAGES, cluster)
        return 0
    if args.data is None:
        raise UsageError(
            "--data DIR is needed: a folder with train/<class>/ and val/ in it, or any folder with one folder of "
            "pictures per class (--dry-run needs none)"
        )
    data = read_set(args)
    asked = replace(asked, classes=len(data.classes))
    used = asked.chosen_images(len(data.train))
    if not cluster.on_root(((args.out or Path("runs") / asked.name) / "result.json").exists):
        say(asked, args, device, len(used), cluster)
    return train(asked, replace(data, train=data.train.take(used)), args, device, arguments, cluster)


def check_use(args: argparse.Namespace) -> None:
    """UsageError for options that would be ignored: a trained network is not trained, a picture is no data set."""
    if args.image and not args.run:
        raise UsageError("--image asks a trained network: name its folder with --run")
    training = {*ImagenetSettings.options(), "out", "resume", "save_every"} - {"bad_images"}
    unused = sorted(name for name in training if getattr(args, name) not in (None, False)) if args.run else []
    if unused:
        raise UsageError(f"--{unused[0].replace('_', '-')} is for a training, but --run names a trained network")
    if args.val_labels is not None and args.data is None:
        raise UsageError("--val-labels is for the pictures of --data: add it")
    for name in ("data", "bad_images"):
        if args.image and getattr(args, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is for a data set, but --image names pictures: leave one out")
    if args.image and args.crops == 1:
        raise UsageError("--crops is for a data set; --image averages ten crops: leave --crops out")


def read_set(args: argparse.Namespace) -> PictureSet:
    with hint("--data names the folder, --val-labels the file with the labels of a flat val/"):
        data = picture_set(args.data, args.val_labels)
    print(f"{len(data.classes)} classes, {len(data.train):,} training and {len(data.validation):,} validation pictures")
    if data.ignored:
        print(f"left out: {len(data.ignored)} files without an image extension, such as {printable(data.ignored[0])}")
    return data


def say(asked: ImagenetSettings, args: argparse.Namespace, device: Device, images: int, cluster: Communicator) -> None:
    schedule = Table(["epochs", "learning rate", "weight decay"], asked.schedule_table()).text()
    how = f"\n{asked.recipe}, batches of {asked.batch}\n\n{schedule}\n"
    announce(asked, device, images * asked.epochs, cluster, how=how)
    processes = args.workers * cluster.size
    times, by = counted(asked.epochs, "time"), counted(processes, "process", "processes")
    print(f"pictures  {images:,}, decoded {times} by {by}\n", flush=True)


def train(
    asked: ImagenetSettings,
    data: PictureSet,
    args: argparse.Namespace,
    device: Device,
    arguments: list[str],
    cluster: Communicator,
) -> int:
    folder = args.out or Path("runs") / asked.name
    finished = cluster.on_root((folder / "result.json").exists)
    note_resume(args.resume, folder)
    line, again = (command(MODULE, arguments, cluster.launcher, resume=resume) for resume in (False, True))
    with interruptible(again, folder) as stop, Decoders(args.workers, asked.side) as decoders:
        job = PhotoJob(asked, folder, data, decoders, args.save_every, args.crops)
        with hint("--bad-images skip leaves out files that cannot be read; a smaller --workers starts fewer processes"):
            result = run_job(job, device=device, resume=args.resume, command=line, stop=stop, cluster=cluster)
    print(f"\n{report(asked, result)}\n")
    print(closing(folder, result["seconds"], finished))
    return 0


def report(asked: ImagenetSettings, result: dict[str, Any]) -> str:
    """The errors on the validation set, with the paper's beside them."""
    paper = imagenet_result(asked.variant)
    words = {"top1": "top-1, one crop", "top5": "top-5, one crop", "top1_ten": "top-1, ten", "top5_ten": "top-5, ten"}
    lines = [
        [text, f"{result[name]:.2f}", f"{getattr(paper, name):.2f}"] for name, text in words.items() if name in result
    ]
    text = f"{asked.label}: errors on {result['images']:,} validation pictures\n\n"
    text += Table(["", "ours %", "paper %"], lines).text()
    if asked.reductions:
        text += f"\n\nThe two are not comparable: this run is reduced ({', '.join(asked.reductions)})."
    return text + at_chance(result["top1"], asked.classes, result["images"])


def use(args: argparse.Namespace, device: Device, cluster: Communicator) -> int:
    """Evaluate a run, or ask it about pictures."""
    if args.dry_run:
        what = f"recognise {', '.join(map(str, args.image))}" if args.image else f"evaluate with {args.crops} crops"
        print(f"would read  {args.run}\nwould do    {what}, on {device}")
        return 0
    run = open_run(args.run, finished=False)
    if not run.settings.PHOTOGRAPHS:
        raise UsageError(f"{args.run} is not a run of {MODULE}")
    if args.image:
        cluster.on_root(lambda: recognise(run, args, device))
        return 0
    if args.data is None:
        raise UsageError("--data DIR is needed for its validation set")
    data = read_set(args)
    if list(data.classes) != [name for name, _ in run.classes]:
        raise UsageError(f"the classes of {args.data} are not those that {args.run} was trained on")
    settings, bad = run.settings, BadImages(args.bad_images or "fail")
    with Decoders(args.workers, settings.side) as decoders:
        result: dict[str, Any] = evaluate_pictures(
            run.model(device), data.validation, read_colours(run.folder).normaliser, settings, decoders, bad,
            crops=args.crops, device=device, cluster=cluster,
        )  # fmt: skip
    result |= {"bad_images": sum(cluster.gather(len(bad.seen))), "crops": args.crops}
    cluster.on_root(lambda: write_json(args.run / "evaluation.json", result))
    print(f"\n{report(settings, result)}\n\nsaved in {args.run / 'evaluation.json'}")
    return 0


def recognise(run: Run, args: argparse.Namespace, device: Device) -> None:
    """The most probable classes of each --image, by the mean of ten crops."""
    network = run.classifier(device)
    for path in args.image:
        (p,) = network.probabilities(network.read(path)[None])
        best = np.argsort(-p, kind="stable")[:SHOWN]
        lines = [[run.classes[i][1], run.classes[i][0], f"{100 * p[i]:.1f}"] for i in best]
        print(f"\n{printable(path)}\n\n{Table(['class', 'folder', '%'], lines).text()}")


if __name__ == "__main__":
    run_on_ranks(main, MODULE)
