"""Records of scaling, in memory. Twin of `connectors.postgres.scaling`."""

from collections.abc import Sequence

from penstock.domain.fleet.scaling import ScaleRecord

MOST_KEPT = 1_000


class MemoryScaleRecords:
    def __init__(self) -> None:
        self.records: list[ScaleRecord] = []

    async def note(self, records: Sequence[ScaleRecord]) -> None:
        self.records += records
        for version in {one.version for one in records}:
            for one in [one for one in self.records if one.version == version][:-MOST_KEPT]:
                self.records.remove(one)

    async def newest(self, version: str, limit: int) -> tuple[ScaleRecord, ...]:
        return tuple(one for one in reversed(self.records) if version in ("", one.version))[:limit]
