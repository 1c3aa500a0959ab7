"""Exit codes of processes, in words."""

import signal
from contextlib import suppress


def how_it_ended(code: int | None) -> str:
    if code is None:
        return "ended, with an unknown exit code"
    if code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"
    return f"ended with code {code}"
