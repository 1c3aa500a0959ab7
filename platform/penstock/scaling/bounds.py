"""The bounds of scaling by version: least and most workers, floors by clock, idle time, price. Parsed, or refused.

A floor by clock is on if its ``start`` line fired after its ``end`` line last did.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from penstock.domain.errors import InvalidField
from penstock.domain.ids import VersionId
from penstock.domain.serving.spec import SpecReader
from penstock.scaling.constants import IDLE_S
from penstock.scaling.gateways import GatewayBounds

CRON_FIELDS = 5
"""CronSim would take a sixth, seconds first: all hours would be misread as minutes."""

MOST_WORKERS = 1_000
"""As many as a deployment may have (``registry/rules.py``)."""
_KEYS = ("versions", "least", "most", "idle_s", "parked", "price_per_hour", "clock")
_CLOCK_KEYS = ("start", "end", "zone", "least")
_GATEWAY_KEYS = ("least", "most")
_MINUTE_S = 60.0
_NUMBER = "workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFloor:
    """A least number from one cron line's firing to the other's, in a time zone."""

    start: str
    end: str
    zone: str
    least: int

    def is_on(self, now: float) -> bool:
        return _is_on(self, int(now // _MINUTE_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of versions; of several with a matching pattern (``versions``), the first counts."""

    versions: str
    least: int
    most: int
    idle_s: float = IDLE_S
    parked: int = 0
    """Workers that stay asleep beside those awake; at least one if ``least`` is 0, so that requests can be held."""
    price_per_hour: float | None = None
    """Dollars of one worker; None if unknown."""
    clock: tuple[ClockFloor, ...] = ()
    is_hosts: bool = False
    """``most`` is the host's, which has places for no more."""

    def floor(self, now: float) -> int:
        return min(self.most, max((self.least, *(one.least for one in self.clock if one.is_on(now)))))

    def check(self, workers: int) -> None:
        """Raise ``InvalidField`` for a person's number that the bounds forbid."""
        if not workers:
            raise InvalidField("0 takes the version out of service: penstock models scale VERSION 0", param=_NUMBER)
        if workers < self.least:
            says = f"the scale file's least is {self.least}: lower it, or override with at least {self.least}"
            raise InvalidField(says, param=_NUMBER)
        if workers > self.most:
            says = f"the scale file's most is {self.most}: raise it, or override with at most {self.most}"
            raise InvalidField(says, param=_NUMBER)

    def overridden(self, workers: int) -> "Bounds":
        """Return the bounds that hold a number, whatever the clock says."""
        return replace(self, least=workers, most=workers, clock=())

    def within(self, places: int) -> "Bounds":
        return replace(self, most=places, is_hosts=True) if places < self.most else self


def of(version: VersionId, known: tuple[Bounds, ...]) -> Bounds | None:
    return next((one for one in known if fnmatchcase(version, one.versions)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleBounds:
    """Bounds in order; ``gateways`` None: they are not scaled."""

    versions: tuple[Bounds, ...] = ()
    gateways: GatewayBounds | None = None


def parse(raw: object, source: str) -> ScaleBounds:
    """Raises ``SpecRefused``, which names source, field and remedy."""
    spec = SpecReader(source, "", raw)
    spec.only(("scale", "gateways"))
    gateways = _gateways(spec.inner("gateways")) if "gateways" in spec.keys else None
    is_named = gateways is None or "scale" in spec.keys
    return ScaleBounds(
        versions=tuple(_bounds(one) for one in spec.each("scale")) if is_named else (), gateways=gateways
    )


def _gateways(spec: SpecReader) -> GatewayBounds:
    spec.only(_GATEWAY_KEYS)
    least, most = _count(spec, "least", 1), _count(spec, "most", 1)
    if least > most:
        raise spec.wrong("least", f"{least} is more than most, {most}: lower least or raise most")
    return GatewayBounds(least=least, most=most)


def _bounds(spec: SpecReader) -> Bounds:
    spec.only(_KEYS)
    keys = spec.keys
    most = _count(spec, "most", 1)
    least = _count(spec, "least", 0)
    if least > most:
        raise spec.wrong("least", f"{least} is more than most, {most}: lower least or raise most")
    clock = tuple(_clock(one, most) for one in spec.each("clock")) if "clock" in keys else ()
    parked = _count(spec, "parked", 0) if "parked" in keys else 0
    return Bounds(
        versions=spec.text("versions"),
        least=least,
        most=most,
        idle_s=spec.number("idle_s", lambda n: n > 0, "seconds above 0") if "idle_s" in keys else IDLE_S,
        parked=max(parked, 1 if least == 0 else 0),
        price_per_hour=_price(spec) if "price_per_hour" in keys else None,
        clock=clock,
    )


def _count(spec: SpecReader, key: str, least: int) -> int:
    says = f"a whole number of workers, {least} to {MOST_WORKERS}"
    return int(spec.number(key, lambda n: n == int(n) and least <= n <= MOST_WORKERS, says))


def _price(spec: SpecReader) -> float:
    return spec.number("price_per_hour", lambda n: n > 0, "dollars above 0; leave it out if it is not known")


def _clock(spec: SpecReader, most: int) -> ClockFloor:
    spec.only(_CLOCK_KEYS)
    least = _count(spec, "least", 1)
    if least > most:
        raise spec.wrong("least", f"{least} is more than most, {most}: lower this floor or raise most")
    zone = spec.text("zone")
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise spec.wrong(
            "zone", f"{zone!r} is no time zone of this machine; write for example Europe/Berlin"
        ) from error
    found = ClockFloor(start=_line(spec, "start", zone), end=_line(spec, "end", zone), zone=zone, least=least)
    if found.start == found.end:
        raise spec.wrong("end", "it fires at the same times as start, so the floor never applies; choose other times")
    return found


def _line(spec: SpecReader, key: str, zone: str) -> str:
    line = spec.text(key)
    try:
        if len(line.split()) != CRON_FIELDS:
            raise CronSimError(line)
        next(CronSim(line, datetime(2026, 1, 1, tzinfo=ZoneInfo(zone))))
    except (CronSimError, StopIteration) as error:
        remedy = "is no cron line of five fields, or it never fires; 0 8 * * 1-5 is 08:00 on weekdays"
        raise spec.wrong(key, f"{line!r} {remedy}") from error
    return line


@lru_cache(maxsize=1024)
def _is_on(floor: ClockFloor, minute: int) -> bool:
    """Tell whether the start line fired last. A firing within ``minute`` counts."""
    zone = ZoneInfo(floor.zone)
    after = datetime.fromtimestamp((minute + 1) * _MINUTE_S, UTC).astimezone(zone)
    return _last(floor.start, after) > _last(floor.end, after)


def _last(line: str, before: datetime) -> float:
    """Counted forwards from noon of the day before: counted backwards, the hour that the clock repeats would be
    lost.
    """
    noon = (before - timedelta(days=1)).replace(hour=12, minute=0, second=0, microsecond=0, fold=0)
    last, until = _first(CronSim(line, noon, reverse=True)), before.timestamp()
    for fired in CronSim(line, noon):
        if fired.timestamp() >= until:  # of one zone datetimes compare by their wall time
            break
        last = fired.timestamp()
    return last


def _first(fired: Iterator[datetime]) -> float:
    found = next(fired, None)
    return found.timestamp() if found is not None else 0.0
