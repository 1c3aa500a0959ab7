"""A Redis server with a record of its decisions: the commands of its scripts, in the server's order and time.

``MONITOR`` shows the commands inside scripts: granted leases, renewals, settlements and corrections of any client. The
watcher connects before clients can find the server.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

from penstock.domain.tenancy.limits import Measure, MeterKind
from tests.support.histories.record import Counted, Opened, Rest, Settled, Take
from tests.support.stores.redis_server import RedisServer

LEASE = "lease:"
FIELDS = 5
"""Of each draw in a lease's record: meter, kind, measure, amount, capacity."""


class Watch:
    """What the scripts did, command by command."""

    def __init__(self) -> None:
        self.settled: list[Settled] = []
        self.counted: list[Counted] = []
        self._opened: list[Opened] = []
        self._due: dict[str, float] = {}
        self._spent: dict[str, int] = {}

    @property
    def opened(self) -> list[Opened]:
        """The leases, each with the store's last word on when it frees itself."""
        return [
            Opened(at=one.at, lease=one.lease, takes=one.takes, due=self._due.get(one.lease, 0.0))
            for one in self._opened
        ]

    def take(self, at: float, words: list[str]) -> None:
        match words:
            case ["RPUSH", key, *record] if LEASE in key:
                self._opened.append(Opened(at=at, lease=_lease(key), takes=tuple(_takes(record))))
            case ["ZADD", _, due, key] if LEASE in key:
                self._due[_lease(key)] = float(due) / 1e3
            case ["DEL", key] if LEASE in key:
                self._spent = {}
                self.settled.append(Settled(at=at, lease=_lease(key), spent=self._spent))
            case ["HINCRBY", key, "spent", used]:
                self._spent[_meter(key)] = int(used)
            case ["HSET", key, "spent", amount]:
                self.counted.append(Counted(at=at, meter=_meter(key), spent=int(amount)))


class WatchedRedis(RedisServer):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.watch = Watch()

    def before_others(self, url: str) -> None:
        patient = redis.Redis.from_url(url, socket_timeout=None)
        monitor = patient.monitor()  # type: ignore[no-untyped-call]  # the client's
        monitor.__enter__()
        threading.Thread(target=self._follow, args=(patient, monitor), daemon=True).start()

    def _follow(self, client: Any, monitor: Any) -> None:  # noqa: ANN401  the client leaves it untyped
        """Read until the server is gone; the garbage collector would close a client without a reference."""
        with client, suppress(redis.ConnectionError):
            while True:
                said = monitor.next_command()
                if said["client_type"] == "lua":
                    self.watch.take(said["time"], said["command"].split(" "))

    def rest(self) -> Rest:
        """Return what every slot meter and budget counts and holds now."""
        with self.client() as client:
            spent = {_meter(key): int(client.hget(key, "spent") or 0) for key in _keys(client, "*:spend:*", b"hash")}
            held = {_meter(key): _held(client, key) for key in _keys(client, "*:spend:*:due", b"zset")}
            slots = [*_keys(client, "*:concurrent", b"zset"), *_keys(client, "*:streams", b"zset")]
            held |= {_meter(key): _held(client, key) for key in slots}
        return Rest(spent=spent, held=held)

    @contextmanager
    def client(self) -> Iterator[Any]:
        client = redis.Redis.from_url(self.url)
        try:
            yield client
        finally:
            client.close()


def _keys(client: Any, pattern: str, kind: bytes) -> list[str]:  # noqa: ANN401  the client is loosely typed
    return [key.decode() for key in client.scan_iter(pattern) if client.type(key) == kind]


def _held(client: Any, key: str) -> int:  # noqa: ANN401  as above
    """Return how many leases hold something that is not yet due to free itself."""
    return int(client.zcount(key, int(time.time() * 1e3), "+inf"))


def _takes(record: list[str]) -> Iterator[Take]:
    for at in range(0, len(record), FIELDS):
        meter, kind, measure, amount, capacity = record[at : at + FIELDS]
        yield Take(
            meter=_meter(meter),
            kind=MeterKind(kind),
            measure=Measure(measure),
            amount=int(amount),
            capacity=int(capacity),
        )


def _lease(key: str) -> str:
    return key.partition(LEASE)[2]


def _meter(key: str) -> str:
    """Return a meter's name without the platform's prefix, as plans and budgets name it."""
    return key.partition("}:")[2]
