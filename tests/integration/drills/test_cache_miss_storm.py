"""A cache-miss storm: five nodes with two workers each start one version with empty caches, from a bounded store.

make drills PYTEST_ARGS="-s tests/integration/drills/test_cache_miss_storm.py"
"""

import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.connectors.s3.store import S3Store
from penstock.connectors.signing.keys import PUBLIC
from penstock.connectors.signing.openssf import KeyPairSigner
from penstock.packaging.packing import Packed, Publishing, describe, measure, publish
from tests.support import tree
from tests.support.models.versions import CHOICES, model_folder
from tests.support.stores.s3_server import CREDENTIALS, new_bucket

pytestmark = [pytest.mark.integration, pytest.mark.drill]
NODES, WORKERS = 5, 2
WEIGHTS_BYTES, LINK_BYTES_PER_S = 24_000_000, 6_000_000
"""So that the link takes twenty seconds, and hashing for ten workers on a core or two a small part of that."""
WITHIN_TIMES = 1.2
"""Times bytes over bandwidth within which all workers have their files: what verifying and small requests may add."""
OVERHEAD_RATIO = 1.02
"""Bytes over the link for each byte of the version: heads, manifest, signature."""
BEFORE_S = 3.0
ITL_TIMES, ITL_SLACK_S = 1.5, 0.010
"""What the 99th percentile of a running stream's gaps may grow by: ten times less than a missed token of 20 ms each."""


@contextmanager
def started(*command: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a program of tests that speaks in lines; it ends with its input."""
    whole = {**os.environ, **CREDENTIALS, **environment}
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=tree.ROOT,
        env=whole,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, f"{process.args!r} ended"
    return line


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")


@dataclass
class Stream:
    """A stream that runs on one of the nodes, and the times of its tokens."""

    port: int
    at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection, connection.makefile() as lines:
            for _ in lines:
                self.at.append(time.monotonic())

    def p99_s(self, since: float, until: float) -> float:
        times = [one for one in self.at if since <= one <= until]
        gaps = [later - one for one, later in pairwise(times)]
        return statistics.quantiles(gaps, n=100)[-1]


def pushed(folder: Path, store: str, bucket: str) -> Packed:
    source = model_folder(folder / "model", size=1)
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (WEIGHTS_BYTES, WEIGHTS_BYTES)
    weights = len(header).to_bytes(8, "little") + header + os.urandom(WEIGHTS_BYTES)
    (source / "model.safetensors").write_bytes(weights)
    to = S3Store(f"s3://{bucket}/models", endpoint=store)
    signer = KeyPairSigner(folder / "signing")
    publishing = Publishing(store=to, signer=signer, work=folder, report=lambda _: None)
    return publish(source, describe(source, measure(source), CHOICES), publishing)


def test_a_node_fetches_once_and_the_link_is_the_only_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One fetch for each node, all workers ready within 1.2 times bytes over bandwidth, running streams unmoved."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as open_now:
        store = open_now.enter_context(started("tests.support.stores.bounded_s3", str(LINK_BYTES_PER_S)))
        address, link = said(store).split()
        bucket = new_bucket(address)
        packed = pushed(tmp_path, address, bucket)
        stream = Stream(int(said(open_now.enter_context(started("tests.support.engines.ticking")))))
        workers = [
            open_now.enter_context(
                started(
                    "tests.support.workers.obtaining",
                    packed.digest,
                    PENSTOCK_HOME=str(tmp_path / f"home-{node}-{worker}"),
                    PENSTOCK_NODE_CACHE=str(tmp_path / f"node-{node}"),
                    PENSTOCK_ARTIFACT_STORE=f"s3://{bucket}/models",
                    PENSTOCK_ARTIFACT_ENDPOINT=link,
                    PENSTOCK_SIGNING_KEY_FILE=str(tmp_path / "signing" / PUBLIC),
                )
            )
            for node in range(NODES)
            for worker in range(WORKERS)
        ]
        assert {said(worker) for worker in workers} == {"up"}
        quiet = time.monotonic()
        time.sleep(BEFORE_S)
        storm = time.monotonic()
        for worker in workers:
            tell(worker)
        took_s = [float(said(worker)) for worker in workers]
        calm = time.monotonic()
        tell(store)
        sent = int(said(store))
        itl_s = stream.p99_s(quiet, storm), stream.p99_s(storm, calm)
    size = packed.manifest.size_bytes
    least_s = NODES * size / LINK_BYTES_PER_S
    sys.stdout.write(
        f"\n{NODES} nodes, {len(workers)} workers: {sent / size:.2f} fetches; ready after {max(took_s):.1f} s, "
        f"{max(took_s) / least_s:.2f} of bytes over bandwidth; ITL p99 {itl_s[0]:.3f} s, then {itl_s[1]:.3f} s\n"
    )
    assert NODES <= sent / size <= NODES * OVERHEAD_RATIO
    assert max(took_s) <= WITHIN_TIMES * least_s
    assert itl_s[1] <= ITL_TIMES * itl_s[0] + ITL_SLACK_S
