"""Gateways' reports of demand, sent to controllers by notifications; nothing is stored.

Every controller receives all reports, so that a new leader knows the demand. While the database is unavailable gateways
count as silent, and no version wakes or scales.

Trade-off: a notification holds at most 8,000 bytes, so a report of many versions is sent in parts. A report with a
missing part is dropped: the next one repeats its counters.
"""

import zlib
from base64 import b85decode, b85encode
from collections.abc import Callable

import asyncpg
import msgspec

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.listening import Channel
from penstock.connectors.postgres.queries import load
from penstock.domain.fleet.demand import GatewayReport
from penstock.telemetry.logs import logger

_NAME = "demand"
CHANNEL = f"penstock_{_NAME}"
PART_BYTES = 7_000
"""Characters of one notification, within the 8,000 of Postgres with its head."""
MOST_PARTS = 64
MOST_REPORT_BYTES = 4 << 20
"""Bytes of an unpacked report: 5,000 counters are one megabyte."""
_SQL = load("demand")
_REPORT = msgspec.json.Decoder(GatewayReport)


class PostgresDemandTeller:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def tell(self, report: GatewayReport) -> None:
        for part in parts(report):
            await self._database.rows(_SQL["tell"], CHANNEL, part)


def parts(report: GatewayReport) -> list[str]:
    """Notifications of the form ``GATEWAY NUMBER PART PARTS TEXT``."""
    text = b85encode(zlib.compress(msgspec.json.encode(report))).decode()
    texts = [text[at : at + PART_BYTES] for at in range(0, len(text), PART_BYTES)]
    name = report.gateway.replace(" ", "-")
    return [f"{name} {report.number} {at} {len(texts)} {one}" for at, one in enumerate(texts)]


class Assembly:
    def __init__(self) -> None:
        self._parts: dict[str, tuple[str, dict[int, str]]] = {}
        self.refused = 0
        """Notifications that were no part of a report."""

    def take(self, payload: str) -> GatewayReport | None:
        try:
            name, number, at, count, text = payload.split(" ")
            if not 0 <= int(at) < int(count) <= MOST_PARTS:
                raise ValueError(payload)
            return self._taken(name, number, int(at), int(count), text)
        except (ValueError, zlib.error, msgspec.MsgspecError):
            self.refused += 1
            return None

    def _taken(self, name: str, number: str, at: int, count: int, text: str) -> GatewayReport | None:
        known, texts = self._parts.pop(name, (number, {}))
        texts = texts if known == number else {}
        texts[at] = text
        if len(texts) < count:
            self._parts[name] = (number, texts)
            while len(self._parts) > MOST_PARTS:
                del self._parts[next(iter(self._parts))]
            return None
        whole = "".join(texts[one] for one in range(count))
        unpacked = zlib.decompressobj().decompress(b85decode(whole), MOST_REPORT_BYTES)
        return _REPORT.decode(unpacked)


class PostgresDemand:
    def __init__(self, dsn: str) -> None:
        self._channel = Channel(dsn, _NAME)
        self.assembly = Assembly()
        self._refused_told = 0

    async def run(self, on_report: Callable[[GatewayReport], None]) -> None:
        def told(payload: str) -> None:
            report = self.assembly.take(payload)
            if report is not None:
                on_report(report)

        await self._channel.follow(self._still_here, told)

    async def _still_here(self, connection: asyncpg.Connection) -> None:
        if self.assembly.refused > self._refused_told:
            logger().warning("demand_reports_refused", count=self.assembly.refused - self._refused_told)
            self._refused_told = self.assembly.refused
        await connection.execute(_SQL["still_here"])
