"""Program: a worker up to the files of its version, composed as `apps.worker` does, without an engine.

    python -m tests.support.workers.obtaining DIGEST

Says that it is up, waits for a line, and tells the seconds until the verified copy is there.
"""

import sys
import time

from penstock.apps.stores import open_store, open_verifier
from penstock.domain.clock import SystemClock
from penstock.settings.processes import WorkerSettings
from penstock.worker.artifacts.cache import NodeCache
from penstock.worker.artifacts.fetch import Fetcher
from penstock.worker.artifacts.node import Node
from tests.support.lines import say


def main(digest: str) -> None:
    settings = WorkerSettings()
    store = open_store(settings)
    node = Node(
        source=store,
        cache=NodeCache(settings.copies, budget_bytes=settings.node_cache_bytes),
        fetcher=Fetcher(store, SystemClock()),
        verifier=open_verifier(settings),
    )
    say("up")
    sys.stdin.readline()
    began = time.monotonic()
    node.obtain(digest)
    say(time.monotonic() - began)
    sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1])
