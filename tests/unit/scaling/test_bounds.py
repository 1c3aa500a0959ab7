"""Bounds as they are written: what is taken, what is refused by field and remedy, and floors by clock."""

from contextlib import nullcontext
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
import yaml

from penstock.domain.errors import InvalidField
from penstock.domain.ids import VersionId
from penstock.domain.serving.spec import SpecRefused
from penstock.scaling import bounds
from penstock.scaling.bounds import Bounds, ClockFloor
from penstock.scaling.gateways import GatewayBounds

OFFICE = {"start": "0 8 * * 1-5", "end": "0 18 * * 1-5", "zone": "Europe/Berlin", "least": 3}


def one(**changes: object) -> dict[str, object]:
    return {"versions": "m@*", "least": 1, "most": 4, **changes}


def refused(**changes: object) -> str:
    with pytest.raises(SpecRefused) as caught:
        bounds.parse({"scale": [one(**changes)]}, "scale.yaml")
    return str(caught.value)


def test_what_is_written_is_what_binds() -> None:
    """A whole entry, as YAML, gives these bounds; the first pattern that matches a version is its own."""
    text = """
    scale:
      - {versions: "chat@*", least: 0, most: 8, idle_s: 60, parked: 2, price_per_hour: 1.5}
      - {versions: "*", least: 1, most: 2}
    gateways: {least: 2, most: 24}
    """
    parsed = bounds.parse(yaml.safe_load(text), "scale.yaml")
    assert parsed.gateways == GatewayBounds(least=2, most=24)
    found = parsed.versions
    assert found == (
        Bounds(versions="chat@*", least=0, most=8, idle_s=60.0, parked=2, price_per_hour=1.5),
        Bounds(versions="*", least=1, most=2, idle_s=600.0),
    )
    assert bounds.of(VersionId("chat@0123456789ab"), found) is found[0]
    assert bounds.of(VersionId("other@0123456789ab"), found) is found[1]
    assert bounds.of(VersionId("x"), found[:1]) is None


def test_gateways_may_be_scaled_alone() -> None:
    """A file with their bounds needs no versions; one with neither is refused."""
    assert bounds.parse({"gateways": {"least": 1, "most": 2}}, "x").versions == ()
    with pytest.raises(SpecRefused):
        bounds.parse({}, "x")


def test_zero_keeps_one_asleep() -> None:
    """A version that may go to zero keeps a sleeping worker, which requests can be held for."""
    assert bounds.parse({"scale": [one(least=0)]}, "x").versions[0].parked == 1


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"least": 5}, "least", "lower least or raise most"),
        ({"most": 0}, "most", "a whole number of workers, 1 to 1000"),
        ({"most": 1001}, "most", "1 to 1000"),
        ({"least": -1}, "least", "0 to 1000"),
        ({"least": 0.5}, "least", "a whole number"),
        ({"price_per_hour": 0}, "price_per_hour", "leave it out if it is not known"),
        ({"price_per_hour": float("nan")}, "price_per_hour", "dollars above 0"),
        ({"idle_s": 0}, "idle_s", "seconds above 0"),
        ({"clock": [OFFICE | {"least": 5}]}, "clock[0].least", "lower this floor or raise most"),
        ({"clock": [OFFICE | {"zone": "Mars/Olympus"}]}, "clock[0].zone", "write for example Europe/Berlin"),
        ({"clock": [OFFICE | {"start": "0 8 31 2 *"}]}, "clock[0].start", "never fires"),
        ({"clock": [OFFICE | {"end": "eight"}]}, "clock[0].end", "no cron line"),
        ({"clock": [OFFICE | {"end": "0 18 * * * *"}]}, "clock[0].end", "five fields"),
        ({"clock": [OFFICE | {"end": OFFICE["start"]}]}, "clock[0].end", "never applies"),
        ({"clock": []}, "clock", "a list of at least one"),
        ({"replicas": 3}, "replicas", "no such key"),
    ],
)
def test_a_wrong_entry_is_refused_by_field_and_remedy(changes: dict[str, object], field: str, remedy: str) -> None:
    """Each refusal says the file, the field and the remedy."""
    said = refused(**changes)
    assert said.startswith(f"scale.yaml: scale[0].{field}: ")
    assert remedy in said


def test_least_may_be_most() -> None:
    """A fixed number, of workers, of a clock's floor, of gateways; of these only the reverse is refused."""
    (found,) = bounds.parse({"scale": [one(least=4, clock=[OFFICE | {"least": 4}])]}, "x").versions
    assert (found.least, found.most, found.clock[0].least) == (4, 4, 4)
    assert bounds.parse({"gateways": {"least": 3, "most": 3}}, "x").gateways == GatewayBounds(least=3, most=3)
    with pytest.raises(SpecRefused, match=r"gateways\.least: 3 is more than most, 2: lower least or raise most"):
        bounds.parse({"gateways": {"least": 3, "most": 2}}, "x")


def test_a_persons_number_is_within_the_bounds() -> None:
    """Both ends are taken, beyond them the remedy names the scale file, and the host bounds only if it holds less."""
    found = Bounds(versions="*", least=2, most=4)
    for workers, says in ((2, ""), (4, ""), (1, "lower it"), (5, "raise it"), (0, "penstock models scale VERSION 0")):
        with pytest.raises(InvalidField, match=says) if says else nullcontext():
            found.check(workers)
    assert found.within(4) is found
    assert (found.within(3).most, found.within(3).is_hosts) == (3, True)


def at(text: str, zone: str = "Europe/Berlin", fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


FLOOR = ClockFloor(start="0 8 * * 1-5", end="0 18 * * 1-5", zone="Europe/Berlin", least=3)


@pytest.mark.parametrize(
    ("when", "is_on"),
    [
        ("2026-11-27T07:59:59", False),
        ("2026-11-27T08:00:00", True),
        ("2026-11-27T17:59:59", True),
        ("2026-11-27T18:00:00", False),
        ("2026-11-28T12:00:00", False),
        ("2026-11-30T08:30:00", True),
    ],
)
def test_a_floor_is_on_between_its_lines(when: str, is_on: bool) -> None:
    """Working hours in Berlin, to the minute, not at the weekend."""
    assert FLOOR.is_on(at(when)) is is_on
    found = Bounds(versions="*", least=1, most=9, clock=(FLOOR,))
    assert found.floor(at(when)) == (3 if is_on else 1)


def test_of_lines_that_fire_together_the_end_counts() -> None:
    """On Mondays at eight both fire: the floor is off, as it is after any later end."""
    monday = ClockFloor(start="0 8 * * 1", end="0 8 * * *", zone="Europe/Berlin", least=2)
    assert not monday.is_on(at("2026-11-30T08:00:30"))


def test_a_zone_has_its_own_hours() -> None:
    """Eight in Berlin is two at night in New York."""
    assert FLOOR.is_on(at("2026-11-27T02:30:00", "America/New_York"))
    assert not FLOOR.is_on(at("2026-11-27T13:00:00", "America/New_York"))


def test_the_hour_that_summer_time_repeats_is_one_floor() -> None:
    """From 02:15 to 03:15 of the night in which 02:00 to 03:00 comes twice, the floor stays on throughout."""
    night = ClockFloor(start="15 2 * * *", end="15 3 * * *", zone="Europe/Berlin", least=2)
    begins, ends = at("2026-10-25T02:15:00", fold=0), at("2026-10-25T03:15:00")
    assert ends - begins == 7200
    assert [night.is_on(begins + minutes * 60.0) for minutes in range(0, 120, 5)] == [True] * 24
    assert not night.is_on(begins - 60.0)
    assert not night.is_on(ends)


def test_the_hour_that_summer_time_leaves_out_has_its_floor() -> None:
    """A floor from 02:30 to 04:00 is on in the night without 02:30, from 03:00 at the latest."""
    night = ClockFloor(start="30 2 * * *", end="0 4 * * *", zone="Europe/Berlin", least=2)
    assert night.is_on(at("2026-03-29T03:30:00"))
    assert not night.is_on(at("2026-03-29T04:00:00"))
