"""Reads the pickled files of CIFAR without unpickling them.

`pickle.load` runs whatever a file tells it to.  Restricting the names it may import (`Unpickler.find_class`) stops
that, but not all that a hostile or damaged file can do: a tuple nested two million deep, used as the key of a
dictionary, still crashes the interpreter, and a memo index of 2^31 makes it allocate and fill 32 GB.

A pickle is a program for a small stack machine.  CIFAR's files, written by Python 2 in 2009, use 23 of its 68
instructions and name three things of NumPy.  So this is that machine, with these instructions and no others:
nothing is imported, nothing a file names is called, and without the instructions that read the memo back there is no
memo, no sharing and no recursion.  What comes out is a finite tree of dict, list, tuple, bytes, int, None, False and
`Bytes`, the pixels.
"""

from __future__ import annotations

import pickle  # for the names of its instructions only
import struct
from dataclasses import dataclass
from typing import Any

from minicnn.data.dataset import DataError

# The names that the files use.  Each stands for itself as a piece of text: there is nothing to call.
RECONSTRUCT = "numpy.core.multiarray _reconstruct"
NDARRAY = "numpy ndarray"
DTYPE = "numpy dtype"
NAMES = (RECONSTRUCT, NDARRAY, DTYPE)


@dataclass(frozen=True, eq=False)  # equal to nothing else, so comparing what a file holds is always safe
class Call:
    """A call that the file asks for; it is noted, never made."""

    function: str


@dataclass(frozen=True, eq=False)
class Bytes:
    """A matrix of uint8, row after row."""

    rows: int
    columns: int
    values: bytes


def loads(content: bytes) -> Any:
    """The value of one of CIFAR's pickles; DataError for anything that they do not hold."""
    try:
        return _run(content)
    except (IndexError, struct.error):  # popped from an empty stack; ran past the end
        raise DataError("the pickle is cut short or damaged") from None


def _run(content: bytes) -> Any:
    """The stack machine: one long `match`, with one case per instruction.

    MARK puts the stack aside and begins another; SETITEMS, APPENDS and TUPLE take all of that one and go back.
    """
    if content[:2] != pickle.PROTO + b"\x02":
        raise DataError("not a pickle of protocol 2, which CIFAR's files are")
    at = 2
    stack: list[Any] = []
    aside: list[list[Any]] = []
    while True:
        instruction = content[at : at + 1]
        at += 1
        match instruction:  # the commonest first
            case pickle.BININT1:
                stack.append(content[at])
                at += 1
            case pickle.SHORT_BINSTRING:
                size = content[at]
                stack.append(_slice(content, at + 1, size))
                at += 1 + size
            case pickle.LONG_BINPUT:  # would note the top of the stack in the memo, which nothing reads
                at += 4
            case pickle.BINPUT:
                at += 1
            case pickle.BINSTRING:
                (size,) = struct.unpack_from("<i", content, at)
                stack.append(_slice(content, at + 4, size))
                at += 4 + size
            case pickle.BININT2:
                stack.extend(struct.unpack_from("<H", content, at))
                at += 2
            case pickle.BININT:
                stack.extend(struct.unpack_from("<i", content, at))
                at += 4
            case pickle.NONE:
                stack.append(None)
            case pickle.NEWFALSE:
                stack.append(False)
            case pickle.EMPTY_LIST:
                stack.append([])
            case pickle.EMPTY_DICT:
                stack.append({})
            case pickle.TUPLE1 | pickle.TUPLE2 | pickle.TUPLE3:
                count = instruction[0] - pickle.TUPLE1[0] + 1
                stack.append(tuple([stack.pop() for _ in range(count)][::-1]))
            case pickle.MARK:
                aside.append(stack)
                stack = []
            case pickle.TUPLE:
                items, stack = tuple(stack), aside.pop()
                stack.append(items)
            case pickle.APPENDS:
                values, stack = stack, aside.pop()
                _extend(stack[-1], values)
            case pickle.SETITEMS:
                values, stack = stack, aside.pop()
                _update(stack[-1], values)
            case pickle.GLOBAL:
                name = _name(content, at)
                stack.append(name)
                at += len(name) + 1
            case pickle.REDUCE:
                arguments, function = stack.pop(), stack.pop()
                stack.append(_call(function, arguments))
            case pickle.BUILD:
                state, call = stack.pop(), stack.pop()
                stack.append(_build(call, state))
            case pickle.STOP:
                return stack.pop()
            case b"":
                raise DataError("the pickle is cut short")
            case _:
                raise DataError(f"the pickle holds the instruction {instruction!r}, which CIFAR's files do not use")


def _slice(content: bytes, start: int, size: int) -> bytes:
    if size < 0 or start + size > len(content):
        raise DataError("the pickle is cut short or damaged")
    return content[start : start + size]


def _extend(target: Any, values: list[Any]) -> None:
    if type(target) is not list:
        raise DataError("the pickle appends to what is not a list")
    target.extend(values)


def _update(target: Any, values: list[Any]) -> None:
    keys = values[0::2]
    if type(target) is not dict or len(values) % 2 or not all(type(key) is bytes for key in keys):
        raise DataError("the pickle fills a dictionary in a way that CIFAR's files do not")
    target.update(zip(keys, values[1::2], strict=True))


def _name(content: bytes, at: int) -> str:
    for name in NAMES:
        if content.startswith(name.replace(" ", "\n").encode() + b"\n", at):
            return name
    raise DataError(f"the pickle names {content[at : at + 60]!r}...; CIFAR's files name only {', '.join(NAMES)}")


# Python 2 pickled a matrix of bytes as an empty array and a type, made by calls and then given their state.


def _call(function: Any, arguments: Any) -> Call:
    if (function, arguments) not in ((RECONSTRUCT, (NDARRAY, (0,), b"b")), (DTYPE, (b"u1", 0, 1))):
        raise DataError("the pickle asks for a call that CIFAR's files do not make")
    return Call(function)


def _build(call: Any, state: Any) -> Call | Bytes:
    if isinstance(call, Call):
        if call.function == DTYPE and state == (3, b"|", None, None, None, -1, -1, 0):
            return call
        match state:  # version, shape, type, whether in Fortran's order, content
            case (1, (int(rows), int(columns)), Call(function="numpy dtype"), False, bytes(values)):
                if call.function == RECONSTRUCT and rows > 0 and columns > 0 and rows * columns == len(values):
                    return Bytes(rows, columns, values)
    raise DataError("the pickle builds an array in a way that CIFAR's files do not")
