"""What does a training step cost on several processes, and how much of it is communication?

examples:
  python -m experiments.scaling                                   one process, to compare with
  mpiexec -n 4 python -m experiments.scaling                      four ranks: four times as many images per batch
  python -m experiments.scaling --processes 4 --model vgg         batch normalisation communicates within a step
  python -m experiments.scaling --processes 4 --batch 128         the same batch, shared by four: is it worth it here?

Weak scaling is the default: every rank has --images images, whatever the number of ranks.  With --batch all ranks share
that many (strong scaling), as they do in a training.  One row per rank shows the median time of a step, and how much of
it was communication; that includes the time in which a rank waits for slower ones.  The images come from the textures
data set, which is made by formulas.
"""

from __future__ import annotations

from experiments.benchmarks.ranks import WARM_UP, seconds_per_step
from experiments.cli.app import argument_parser, get_device, usage_errors
from experiments.cli.ranks import processes_option, run_on_ranks
from experiments.cli.values import check_numbers
from experiments.tables.table import Column, Table
from experiments.train.cifar import MODELS, CifarSettings
from minicnn.cluster import ALONE, Communicator
from minicnn.models.convpool import WIDTHS
from minicnn.models.table import ACTIVATIONS
from minicnn.parallel import threads

MODULE = "experiments.scaling"
COLUMNS = [Column("rank"), *(Column(head, ".1f") for head in ("step ms", "compute ms", "communication ms", "share %"))]


def main(arguments: list[str], cluster: Communicator = ALONE) -> int:
    p = argument_parser(MODULE, __doc__)
    size = p.add_mutually_exclusive_group()
    size.add_argument("--images", type=int, default=32, help="per rank and step (default 32)")
    size.add_argument("--batch", type=int, help="images per step of all ranks together, instead of --images")
    p.add_argument("--steps", type=int, default=20, help=f"that are counted, after {WARM_UP} others (default 20)")
    p.add_argument("--model", choices=MODELS, default="convpool", help="default convpool; vgg: batch normalisation")
    p.add_argument("--act", choices=ACTIVATIONS, default="relu", help="activation (default relu)")
    p.add_argument("--width", choices=WIDTHS, default="base", help="the paper's numbers of filters (default base)")
    p.add_argument("--scale", type=float, default=0.25, help="multiply every width (default 0.25)")
    p.add_argument("--device", default="auto", help="auto (a GPU where one works), cpu or gpu: one per rank")
    processes_option(p)
    p.add_argument("--dry-run", action="store_true", help="say what would be done, and stop")
    args = p.parse_args(arguments)
    with usage_errors():
        check_numbers(vars(args), positive=("images", "batch", "steps"))
        asked = CifarSettings.of(
            model=args.model,
            act=args.act,
            width=args.width,
            scale=args.scale,
            batch=args.batch or args.images * cluster.size,
            dataset="textures",
        )
        asked.check()
    device = get_device(args.device, cluster)
    print(f"{asked.name} on {device}: ranks {cluster.size}, threads {threads()} each, images {asked.batch} in all")
    if args.dry_run:
        return 0
    ranks = cluster.gather(seconds_per_step(asked, args.steps, device, cluster))
    rows = [[i, 1e3 * s, 1e3 * (s - t), 1e3 * t, 100 * t / s] for i, (s, t) in enumerate(ranks)]
    print(f"\n{Table(COLUMNS, rows).text()}\n")
    print(f"{asked.batch / max(s for s, _ in ranks):.0f} images/s on all ranks together")
    return 0


if __name__ == "__main__":
    run_on_ranks(main, MODULE)
