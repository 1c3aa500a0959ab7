"""Logs the source positions of a handler's failure for its author, without the error's message, which may quote a
caller.
"""

import logging
import traceback
from contextvars import Context
from pathlib import Path

from penstock.formats.contents import HANDLER


def place_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    last = next((one for one in reversed(frames) if Path(one.filename).name == HANDLER), frames[-1])
    return f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}"


def log(words: str, *told: object) -> None:
    """Outside of the request's context, because in it the text would be removed."""
    Context().run(logging.getLogger(__name__).warning, words, *told)
