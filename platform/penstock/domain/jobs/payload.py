"""Where payloads are stored: rows hold the place, never the bytes."""

from dataclasses import dataclass

from penstock.domain.jobs.ids import ObjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Bytes of an object, counted before sealing."""

    object: ObjectId
    at: int = 0
    size: int = 0


NO_EXTENT = Extent(object=ObjectId(""))
