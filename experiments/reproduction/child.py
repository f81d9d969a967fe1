"""One step in a process of its own: python -m experiments.reproduction.child MODULE ARGUMENTS

It ends as soon as the process that started it is gone, for whatever reason, so that no training goes on unseen and
keeps the folder locked.  What was saved after the last epoch remains.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from importlib import import_module
from importlib.util import find_spec


def main(arguments: list[str]) -> None:
    if not arguments or not re.fullmatch(r"experiments(\.[a-z0-9_]+)+", arguments[0]) or not find_spec(arguments[0]):
        print("error: the first argument must be a module of experiments", file=sys.stderr)
        sys.exit(2)
    module = arguments[0]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = arguments
    try:
        from experiments.cli.app import run_main  # here: importing takes a while, and Ctrl-C may come meanwhile

        run_main(import_module(module).main, module)
    except KeyboardInterrupt:
        sys.exit(130)


def _end_with_parent() -> None:
    """Standard input is a pipe that nobody writes to: it ends when its other end is closed.

    This bypasses sys.stdin, whose lock would make the interpreter abort if it exited while this thread waits.
    """
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
