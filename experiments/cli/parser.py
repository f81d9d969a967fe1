"""The parser of all commands: an error is one line, which names what was probably meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import minicnn

NUMBERS = {"int": "a whole number", "float": "a number"}


class Parser(argparse.ArgumentParser):
    """Shows its description as it is written, examples and all."""

    def __init__(self, prog: str, description: str | None):
        super().__init__(prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument("--version", action="version", version=f"minicnn {minicnn.__version__}")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(self._not_known(unknown))
        return found

    def _not_known(self, arguments: Sequence[str]) -> str:
        """About the first of these that looks like an option, or else the first."""
        word = next((a for a in arguments if a.startswith("-")), arguments[0])
        name = "--" + word.partition("=")[0].lstrip("-")
        if word.startswith("-"):
            return f"there is no option {name}{did_you_mean(name, self._option_string_actions)}"
        owner = next((a for a in self._actions if a.choices and word in a.choices and a.option_strings), None)
        if owner is not None and name not in self._option_string_actions:
            return f"unexpected: {word!r}; did you mean {owner.option_strings[-1]} {word}?"
        return f"unexpected: {word!r}{did_you_mean(name, self._option_string_actions)}"

    def error(self, message: str) -> NoReturn:
        """One line instead of the usage, which would fill a screen."""
        message = re.sub(
            r"argument (\S+): invalid (int|float) value: (.*)",
            lambda found: f"{found[1]} must be {NUMBERS[found[2]]}, got {found[3]}",
            message,
        )
        wrong = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        meant = did_you_mean(wrong[1], re.findall(r"[^', ]+", wrong[2])) if wrong else ""
        self.exit(2, f"error: {message}{meant} ({self.prog} --help)\n")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean --epochs?", or nothing if no known word is close."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
