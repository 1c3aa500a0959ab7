"""A real Prometheus that holds what a test says was measured: promtool writes its blocks, nothing is scraped."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

READY_WITHIN_S = 20.0


def program(name: str) -> str:
    """Return the path of a program of `make observability`, or its name for the machine's own."""
    ours = Path(sys.executable).with_name(name)
    return str(ours) if ours.exists() else name


@contextmanager
def holding(folder: Path, openmetrics: str) -> Iterator[str]:
    """Yield the address of a Prometheus with these samples: the OpenMetrics text format, with times."""
    text, blocks, config = folder / "samples.txt", folder / "blocks", folder / "prometheus.yml"
    text.write_text(openmetrics)
    config.write_text("global: {}\n")
    promtool = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)]
    subprocess.run(promtool, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    command = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={blocks}"]
    command += ["--storage.tsdb.retention.time=100y", f"--web.listen-address={place}", "--log.level=error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until_ready(f"http://{place}", process)
        yield f"http://{place}"
    finally:
        process.terminate()
        process.wait(READY_WITHIN_S)


def _until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"{url}/-/ready", trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.ConnectError:
            time.sleep(0.05)
    raise AssertionError(f"Prometheus is not ready; exit code {process.poll()}")
