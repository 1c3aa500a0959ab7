"""The gateway's process, which at SIGUSR1 tells what only the garbage collector could free since the signal before.

Run as ``python -m tests.support.gateways.tidy gateway``; what it found goes to ``litter.json`` in its home, by type.
"""

import gc
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

OURS = ("penstock.", "uvicorn.")


def _tell(_signal: int, _frame: object) -> None:
    gc.collect()
    found = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage)
    gc.garbage.clear()
    gc.set_debug(gc.DEBUG_SAVEALL)
    home = Path(os.environ["PENSTOCK_HOME"])
    (home / "litter.part").write_text(json.dumps({name: n for name, n in found.items() if name.startswith(OURS)}))
    (home / "litter.part").rename(home / "litter.json")


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _tell)
    from penstock.cli import application

    sys.exit(application()())
