"""Where in a handler something failed: for its author. An error's own words may be a caller's, so they stay out."""

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
    """Log outside of the request: inside it a log leaves callers' text out."""
    Context().run(logging.getLogger(__name__).warning, words, *told)
