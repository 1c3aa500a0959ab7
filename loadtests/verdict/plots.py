"""The plots of a report, each from a run's records alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadtests.drive.records import End, Health, Record
from loadtests.verdict.svg import COLOURS, Axis, Plot, axis

BINS = 60
MOST_POINTS = 4000
"""More dots tell nobody more, and make a report heavy."""
ENDS = {
    "whole": ({End.WHOLE}, "#009E73"),
    "hung up by plan": ({End.LEFT}, "#56B4E9"),
    "refused": ({End.REFUSED}, "#E69F00"),
    "failed, broken or late": ({End.FAILED, End.BROKEN, End.LATE, End.WRONG}, "#B00020"),
}
Values = Callable[[Record], Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot with its heading and legend: names with their colours."""

    heading: str
    svg: str
    legend: Mapping[str, str]


def figures(
    records: Sequence[Record], health: Health | None, duration_s: float, within_s: Mapping[str, float]
) -> Iterator[Figure]:
    """Yield what there is to show; ``within_s`` holds the tightest bounds by indicator."""
    yield _traffic(records, duration_s)
    if any(_ttft(record) for record in records):
        yield _over_time(records, duration_s, within_s.get("ttft"))
        yield _shares("First token, share of answers within", records, _ttft, within_s.get("ttft"))
    if any(_gaps(record) for record in records):
        yield _shares("Between tokens, share of gaps within", records, _gaps, within_s.get("itl"))
    if records:
        yield _generator(records, health, duration_s)


def _ttft(record: Record) -> Sequence[float]:
    return () if record.ttft_s is None else (record.ttft_s,)


def _gaps(record: Record) -> Sequence[float]:
    return () if record.slow else record.gaps_s


def _colours(records: Sequence[Record]) -> dict[str, str]:
    names = dict.fromkeys(record.tenant for record in records)
    return {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}


def _time(duration_s: float) -> Axis:
    return Axis(name="planned time, s", low=0.0, high=duration_s)


def _traffic(records: Sequence[Record], duration_s: float) -> Figure:
    """Stack what became of the requests by when they were planned."""
    bins: list[list[Record]] = [[] for _ in range(BINS)]
    for record in records:
        bins[min(BINS - 1, int(BINS * record.planned_at / duration_s))].append(record)
    wide_s = duration_s / BINS
    highest = max(len(members) for members in bins) / wide_s
    plot = Plot("Requests a second by how they ended", _time(duration_s), axis("requests / s", [highest]))
    for number, members in enumerate(bins):
        below = 0.0
        for ends, colour in ENDS.values():
            above = below + sum(record.end in ends for record in members) / wide_s
            if above > below:
                plot.bar((number * wide_s, (number + 1) * wide_s), (below, above), colour)
            below = above
    return Figure(
        heading="Requests by how they ended",
        svg=plot.text(),
        legend={name: colour for name, (_, colour) in ENDS.items()},
    )


def _over_time(records: Sequence[Record], duration_s: float, within_s: float | None) -> Figure:
    every = 1 + len(records) // MOST_POINTS
    colours = _colours(records)
    values = [value for record in records for value in _ttft(record)]
    plot = Plot("First token over time", _time(duration_s), axis("seconds", [*values, within_s or values[0]], log=True))
    for tenant, colour in colours.items():
        mine = [record for record in records[::every] if record.tenant == tenant]
        plot.dots([(record.planned_at, value) for record in mine for value in _ttft(record)], colour)
    if within_s:
        plot.bound(y=within_s)
    return Figure(heading="First token, by when it was planned", svg=plot.text(), legend=colours)


def _shares(heading: str, records: Sequence[Record], values: Values, within_s: float | None) -> Figure:
    colours = _colours(records)
    everything = [value for record in records for value in values(record)]
    x = axis("seconds", [*everything, within_s or everything[0]], log=True)
    plot = Plot(heading, x, Axis(name="share", low=0.0, high=1.0))
    for tenant, colour in colours.items():
        mine = sorted(value for record in records if record.tenant == tenant for value in values(record))
        every = 1 + len(mine) // 400
        shown = [(value, (number + 1) / len(mine)) for number, value in enumerate(mine)]
        if shown:
            plot.line([(mine[0], 0.0), *shown[::every], shown[-1]], colour)
    if within_s:
        plot.bound(x=within_s)
    return Figure(heading=heading, svg=plot.text(), legend=colours)


def _generator(records: Sequence[Record], health: Health | None, duration_s: float) -> Figure:
    lags = [(record.planned_at, 1e3 * max(0.0, record.lag_s)) for record in records if record.is_first]
    every = 1 + len(lags) // MOST_POINTS
    pulses = _worst((health.pulses if health else ()), duration_s)
    plot = Plot("The generator's own lag", _time(duration_s), axis("ms", [1.0, *(ms for _, ms in (*lags, *pulses))]))
    if pulses:
        plot.line(pulses, COLOURS[7])
    plot.dots(lags[::every], COLOURS[0])
    legend = {"sent after its time": COLOURS[0], "longest standstill": COLOURS[7]}
    return Figure(heading="The generator itself", svg=plot.text(), legend=legend)


def _worst(pulses: Sequence[tuple[float, float]], duration_s: float) -> list[tuple[float, float]]:
    """Return the latest pulse of each part of the run, in ms."""
    worst: dict[int, float] = {}
    for at_s, late_s in pulses:
        part = int(2 * BINS * at_s / duration_s)
        if 0 <= part <= 2 * BINS:
            worst[part] = max(worst.get(part, 0.0), 1e3 * late_s)
    return [(part * duration_s / BINS / 2, ms) for part, ms in sorted(worst.items())]
