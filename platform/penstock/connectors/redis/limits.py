"""``domain.limits.LimitStore`` and ``SpentStore`` on Valkey or Redis: each script is one round trip and one decision.

All keys share a hash tag, so a lease over key, tenant and organisation is in one slot of a cluster.
"""

import secrets
from collections.abc import Mapping, Sequence
from importlib.resources import files

from penstock.connectors.redis.wire import RETRY_S, Argument, ReplyError, Script, Value, Wire
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.limits import SLOTS_RETRY_S, Draw, Measure, MeterDecision, MeterKind, Presence

KEEP_MS = 24 * 3600 * 1000
"""Milliseconds for which an unsettled lease is remembered, so that a late settlement still counts."""
PREFIX = "penstock:{0}:"
NO_LEASE = RequestId("")
RENEWED_AT_ONCE = 500
"""Leases renewed in one call, during which the store does nothing else."""


def _script(name: str) -> str:
    return files("penstock.connectors.redis").joinpath(name).read_text()


class RedisLimits:
    """The connection fails early, so that no admission hangs on a dead server."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._reserve = Script(wire, _script("reserve.lua"))
        self._free = Script(wire, _script("free.lua"))
        self._settle = Script(wire, _script("settle.lua"))
        self._renew = Script(wire, _script("renew.lua"))
        self._spent = Script(wire, _script("spent.lua"))
        self._count = Script(wire, _script("count.lua"))
        self._present = Script(wire, _script("present.lua"))

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        return _decision(draws, await self._draw(lease, draws, hold_s, "ask"))

    async def look(self, draws: Sequence[Draw]) -> MeterDecision:
        return _decision(draws, await self._draw(NO_LEASE, draws, 0.0, "look"))

    async def adopt(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> None:
        await self._draw(lease, draws, hold_s, "adopt")

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None:
        for start in range(0, len(leases), RENEWED_AT_ONCE):
            keys = [self._lease(lease) for lease in leases[start : start + RENEWED_AT_ONCE]]
            await _answered(self._renew, keys, [int(hold_s * 1000), KEEP_MS])

    async def free(self, lease: RequestId) -> None:
        await _answered(self._free, [self._lease(lease)], [])

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        argv = [part for pair in actual.items() for part in pair]
        return bool(await _answered(self._settle, [self._lease(lease)], argv))

    async def ping(self) -> None:
        await self._wire.call("PING")

    async def present(self, gateway: str, alive_s: float, since_ms: int = 0) -> Presence:
        keys = [f"{PREFIX}gateways", f"{PREFIX}mark"]
        # A new one each time: with one of its own, who marked the store before would mark it alike after a loss.
        mark = secrets.token_hex(8)
        found = await _answered(self._present, keys, [gateway, int(alive_s * 1000), since_ms, mark])
        at_ms, gateways, since = _ints(found)
        return Presence(at_ms=at_ms, gateways=gateways, since=since, mark=_texts(found)[0])

    async def spent(self, meters: Sequence[str]) -> Mapping[str, int]:
        counted = await _answered(self._spent, [PREFIX + key for key in meters], []) if meters else []
        return dict(zip(meters, _ints(counted), strict=True))

    async def raise_spent(self, at_least: Mapping[str, int]) -> None:
        await self._counts(at_least, "at_least")

    async def put_spent(self, exactly: Mapping[str, int]) -> None:
        await self._counts(exactly, "exactly")

    async def _counts(self, amounts: Mapping[str, int], how: str) -> None:
        if amounts:
            await _answered(self._count, [PREFIX + key for key in amounts], [how, *amounts.values()])

    async def _draw(self, lease: RequestId, draws: Sequence[Draw], hold_s: float, how: str) -> Value:
        argv: list[Argument] = [int(hold_s * 1000), KEEP_MS, how]
        for draw in draws:
            argv += (draw.kind, draw.measure, draw.amount, draw.capacity, draw.refill_per_s / 1000)
        return await _answered(self._reserve, [self._lease(lease), *(PREFIX + draw.key for draw in draws)], argv)

    def _lease(self, lease: RequestId) -> str:
        return f"{PREFIX}lease:{lease}"


async def _answered(script: Script, keys: Sequence[str], argv: Sequence[Argument]) -> Value:
    try:
        return await script(keys, argv)
    except ReplyError as error:
        if "LEASE exists" in str(error):
            raise Conflict("this lease is open already") from error
        raise StoreUnavailable("the store that gateways share refuses to work", retry_after_s=RETRY_S) from error


def _ints(values: Value) -> list[int]:
    return [value for value in _listed(values) if isinstance(value, int)]


def _texts(values: Value) -> list[str]:
    return [value.decode() for value in _listed(values) if isinstance(value, bytes)]


def _listed(values: Value) -> list[Value]:
    assert isinstance(values, list)  # noqa: S101  as every script of ours says
    return values


def _retry_after_s(draw: Draw, wait_ms: int) -> float:
    if draw.kind is MeterKind.BUDGET:
        return draw.window_ends_in_s
    if draw.kind is MeterKind.SLOTS:
        return SLOTS_RETRY_S
    return wait_ms / 1000 if wait_ms >= 0 else 0.0


def _decision(draws: Sequence[Draw], answer: Value) -> MeterDecision:
    refused, wait_ms, spent, held, *left = _ints(answer)
    if not refused:
        return MeterDecision(granted=True, remaining=tuple(left))
    draw = draws[refused - 1]
    return MeterDecision(
        granted=False,
        refused_by=draw,
        retry_after_s=_retry_after_s(draw, wait_ms),
        remaining=tuple(left),
        spent=spent,
        held=held,
    )
