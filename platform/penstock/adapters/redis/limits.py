"""``domain.limits.LimitStore`` and ``SpentStore`` on Valkey or Redis: each script is one round trip and one decision.

Keys of one organisation share a hash tag, so a lease over key, tenant and organisation is one slot of a cluster.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.limits import SLOTS_RETRY_S, Decision, Draw, Measure, MeterKind

KEEP_MS = 24 * 3600 * 1000
"""How long a lease that nobody settles is remembered, so that a late settlement still counts."""


QUEUE_ROUNDS = 4
"""How many time-outs a decision waits for a connection: a full pool is our own crowd, not the store's silence."""


def connect(url: str, *, timeout_s: float = 1.0) -> Redis:
    """Return a client for decisions: a bounded pool that waits, short time-outs, no retries behind our back.

    A time-out must exceed the event loop's own lateness under a burst: a gateway that takes that for the store's
    silence decides alone, and all of them together give a limit as often as there are gateways.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=32,
        timeout=QUEUE_ROUNDS * timeout_s,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=None,
    )
    return Redis.from_pool(pool)


def _script(name: str) -> str:
    return files("penstock.adapters.redis").joinpath(name).read_text()


class RedisLimits:
    """Meters in Redis. ``prefix`` keeps platforms apart."""

    def __init__(self, redis: Redis, *, prefix: str = "penstock", shard: str = "0") -> None:
        """Take a connected client with short timeouts: an admission decision must not hang on a dead store."""
        self._redis = redis
        self._prefix = f"{prefix}:{{{shard}}}:"
        self._reserve = redis.register_script(_script("reserve.lua"))
        self._settle = redis.register_script(_script("settle.lua"))
        self._renew = redis.register_script(_script("renew.lua"))
        self._spent = redis.register_script(_script("spent.lua"))
        self._count = redis.register_script(_script("count.lua"))

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> Decision:
        """Take all draws or none."""
        argv: list[str | int | float] = [int(hold_s * 1000), KEEP_MS]
        for draw in draws:
            argv += [draw.kind, draw.measure, draw.amount, draw.capacity, draw.refill_per_s / 1000]
        keys = [self._lease(lease), *(self._prefix + draw.key for draw in draws)]
        try:
            answer = await self._reserve(keys=keys, args=argv)
        except RedisError as error:
            if "LEASE exists" in str(error):
                raise Conflict(f"lease {lease} is open already") from error
            raise StoreUnavailable("the limits store does not answer") from error
        if answer[0] == 1:
            return Decision(granted=True, remaining=tuple(answer[1:]))
        draw = draws[answer[1] - 1]
        return Decision(granted=False, refused_by=draw, retry_after_s=_retry_after_s(draw, answer[2]))

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None:
        """Keep the holds of living leases."""
        if leases:
            await self._run(self._renew, [self._lease(x) for x in leases], [int(hold_s * 1000), KEEP_MS])

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        """Replace what was reserved by what was used, once."""
        argv = [part for pair in actual.items() for part in pair]
        return bool(await self._run(self._settle, [self._lease(lease)], argv))

    async def spent(self, meters: Sequence[str]) -> Mapping[str, int]:
        """Return what each of these meters has counted."""
        try:
            counted = await self._spent(keys=[self._prefix + key for key in meters]) if meters else []
        except RedisError as error:
            raise StoreUnavailable("the limits store does not answer") from error
        return dict(zip(meters, counted, strict=True))

    async def raise_spent(self, at_least: Mapping[str, int]) -> None:
        """Count at least so much."""
        await self._counts(at_least, "at_least")

    async def put_spent(self, exactly: Mapping[str, int]) -> None:
        """Count exactly so much."""
        await self._counts(exactly, "exactly")

    async def _counts(self, amounts: Mapping[str, int], how: str) -> None:
        if amounts:
            await self._run(self._count, [self._prefix + key for key in amounts], [how, *amounts.values()])

    async def _run(self, script: object, keys: list[str], argv: Sequence[str | int]) -> int:
        try:
            return int(await script(keys=keys, args=argv))  # type: ignore[operator]  # the client types scripts loosely
        except RedisError as error:
            raise StoreUnavailable("the limits store does not answer") from error

    def _lease(self, lease: RequestId) -> str:
        return f"{self._prefix}lease:{lease}"


def _retry_after_s(draw: Draw, wait_ms: int) -> float:
    """Turn the script's answer into seconds: a bucket's refill, a window's end, a slot's likely end, or never."""
    if draw.kind is MeterKind.BUDGET:
        return draw.window_ends_in_s
    if draw.kind is MeterKind.SLOTS:
        return SLOTS_RETRY_S
    return wait_ms / 1000 if wait_ms >= 0 else 0.0
