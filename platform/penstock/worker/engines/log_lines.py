"""What callers write becomes no line of an engine's log, and what a request says is not in it. In the engine's process.

The agent reads the log's end to tell why an engine ended and what it does; people on call read all of it.
"""

import logging
import traceback

from penstock.worker.meter import current

LEFT_OUT = "(what it says of a request is left out)"
MOST_CAUSES = 8
_ESCAPES = {code: rf"\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) != "\t"} | {
    ord("\n"): r"\n",
    ord("\r"): r"\r",
    0x2028: r"\u2028",
    0x2029: r"\u2029",
}


def install() -> None:
    """Make every record of this process from now on without control characters, and without the words of a request."""
    make = logging.getLogRecordFactory()

    def made(*args: object, **named: object) -> logging.LogRecord:
        return _plain(make(*args, **named))

    logging.setLogRecordFactory(made)


def _plain(record: logging.LogRecord) -> logging.LogRecord:
    if current.get() is None:
        said = record.getMessage()
    else:
        said = f"{record.msg if record.args else f'{record.name}:{record.lineno}'} {LEFT_OUT}"
        if record.exc_info:
            record.exc_text, record.exc_info = _places(record.exc_info[1]), None
    record.msg, record.args = said.translate(_ESCAPES), None
    return record


def _places(error: BaseException | None) -> str:
    """Return an error's class and where it came through, and those of its causes: its own words may be a request's."""
    found: list[str] = []
    while error is not None and len(found) < MOST_CAUSES:
        frames = "".join(traceback.format_tb(error.__traceback__))
        found.append(f"{frames}{type(error).__name__} {LEFT_OUT}")
        error = error.__cause__ or error.__context__
    return "\ncaused by:\n".join(found)
