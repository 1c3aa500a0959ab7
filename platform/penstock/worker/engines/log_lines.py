"""Removes callers' text and control characters from an engine's log, in the engine's process.

The engine core works for all requests at once, so log records of its schema, pattern and token code are assumed to
quote requests.
"""

import logging
import traceback

from penstock.worker.meter import current

LEFT_OUT = "(what it says of a request is left out)"
MOST_CAUSES = 8
_MARK = "penstock_plain"
OF_REQUESTS = ("vllm.v1.structured_output", "vllm.v1.core.sched")
"""Loggers whose records always concern requests: compiled grammars, and tokens in the scheduler."""
_ESCAPES = {code: rf"\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) != "\t"} | {
    ord("\n"): r"\n",
    ord("\r"): r"\r",
    0x2028: r"\u2028",
    0x2029: r"\u2029",
}


def install() -> None:
    make = logging.getLogRecordFactory()

    def made(*args: object, **named: object) -> logging.LogRecord:
        return _plain(make(*args, **named))

    logging.setLogRecordFactory(made)


def _plain(record: logging.LogRecord) -> logging.LogRecord:
    if _MARK in record.__dict__:  # a core that was forked has it already, and vLLM's own factory around it
        return record
    record.__dict__[_MARK] = True
    if current.get() is None and not record.name.startswith(OF_REQUESTS):
        said = record.getMessage()
    else:
        said = f"{record.msg if record.args else f'{record.name}:{record.lineno}'} {LEFT_OUT}"
        if record.exc_info:
            record.exc_text, record.exc_info = _places(record.exc_info[1]), None
    record.msg, record.args = said.translate(_ESCAPES), None
    return record


def _places(error: BaseException | None) -> str:
    found: list[str] = []
    while error is not None and len(found) < MOST_CAUSES:
        frames = "".join(traceback.format_tb(error.__traceback__))
        found.append(f"{frames}{type(error).__name__} {LEFT_OUT}")
        error = error.__cause__ or error.__context__
    return "\ncaused by:\n".join(found)
