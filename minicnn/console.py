"""What programs that print have in common."""

from __future__ import annotations

import os
import sys


def reader_gone() -> int:
    """The exit code of a program whose output nobody reads any more, as in `| head`; the rest of it is dropped."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141  # what a shell gives for SIGPIPE
