"""Values from a command line or from a JSON file of ours, checked before they are used."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

LARGEST = 10**15  # the largest count: NumPy's integers end at 9e18, which leaves room for products
Record = TypeVar("Record")


def check_numbers(
    values: Mapping[str, Any], *, positive: Iterable[str] = (), not_negative: Iterable[str] = (), prefix: str = "--"
) -> None:
    """ValueError for the first of these numbers that is out of range; None means not given, and is allowed."""
    for names, zero in ((positive, False), (not_negative, True)):
        for name in names:
            value, option = values[name], prefix + (name.replace("_", "-") if prefix else name)
            if value is None:
                continue
            if not (value >= 0 if zero else value > 0):
                raise ValueError(f"{option} must {'not be negative' if zero else 'be positive'}, got {value}")
            if value > (LARGEST if isinstance(value, int) else sys.float_info.max):
                raise ValueError(f"{option} is too large: {value}")


def restored(kind: type[Record], stored: Any) -> Record:
    """The dataclass that asdict() and JSON stored; ValueError if the values do not have its types."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # no type says "any dataclass"
    if not isinstance(stored, dict) or set(stored) != known:
        different = sorted(set(stored) ^ known) if isinstance(stored, dict) else "all"
        raise ValueError(f"the stored settings are from another version: {different} differ")
    hints = get_type_hints(kind)
    for name in known:
        if not _fits(stored[name], hints[name]):
            raise ValueError(f"the stored settings are damaged: {name} is {stored[name]!r}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()})


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value of a JSON file has a type: int, float (finite), str, bool, None, a tuple or a union of them."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        if not isinstance(value, list):
            return False
        hints = [first] * len(value) if others == [Ellipsis] else [first, *others]
        return len(hints) == len(value) and all(map(_fits, value, hints))
    if hint is float:
        return is_number(value)
    return value is None if hint is NoneType else type(value) is hint


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def result_folder(text: str) -> Path:
    """For the `type` of --out: a folder that is there, or can be made."""
    folder = Path(text)
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            raise argparse.ArgumentTypeError(f"{there} is a file; name a folder")
        if there != folder and not os.access(there, os.W_OK):
            raise argparse.ArgumentTypeError(f"{there} does not let you write in it; name another folder")
    except (OSError, ValueError) as error:  # a name that is too long, or holds a zero
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r} cannot be a folder ({getattr(error, 'strerror', error)})"
        ) from None
    return folder


def result_file(text: str) -> Path:
    """For the `type` of --out: a file that is there, or can be made."""
    file = Path(text)
    result_folder(str(file.parent))
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"{file} is a folder; name a file")
    return file


def picture_file(text: str) -> Path:
    """For the `type` of an option: a file; whether it is there, and is a picture, is seen when it is read."""
    if re.match(r"\w+://", text):
        raise argparse.ArgumentTypeError(f"{text} is a web address: download the picture first, and name the file")
    return Path(text)


def several_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """For the `type` of an option: "a,b" as a list of some of these names."""

    def names(text: str) -> list[str]:
        found = [name for name in text.split(",") if name]
        unknown = [name for name in found if name not in known]
        if unknown or not found:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; choose from {', '.join(known)}")
        return found

    return names
