"""Scaling: numbers and wishes by version, the signals of one decision, and the changes."""

from collections.abc import Iterator, Sequence

from penstock.views.elements import Record, Shown, Style, line, listing
from penstock.views.words import when

_SIGNAL = "{value:.3g}"
MOST_SILENT = 10
"""Names of silent gateways that fit a screen; `--json` has all."""


def listed(found: Record) -> Iterator[Shown]:
    if not found["is_on"]:
        yield line("Nothing is scaled: PENSTOCK_SCALE_FILE is empty. Persons and rollouts set the numbers.")
        return
    rows = [
        (
            one["record"]["version"],
            one["record"]["after"],
            _wish(one["record"]),
            len(one["target"]["cordoned"]),
            one["record"]["cut"],
            _because(one["record"]),
        )
        for one in found["versions"]
    ]
    yield listing("Scaled versions", ("version", "workers", "wish", "cordoned", "cut by", "because"), rows)
    yield from _reports(found)


def overridden(version: str, override: Record) -> Iterator[Shown]:
    yield line(f"{version}: {_override(override)}, if bounds and the host allow it")


def explained(found: Record, one: Record) -> Iterator[Shown]:
    record, target = one["record"], one["target"]
    cut = f", cut by {record['cut']}" if record["cut"] else ""
    yield line(f"{record['version']}: {record['after']} workers; wish {_wish(record)}{cut}")
    yield line(f"because: {record['reason']}")
    if record["override"]:
        yield line(f"{_override(record['override'])}: {record['override']['reason']}")
    rows = [
        (signal["name"], f"{_SIGNAL.format(**signal)} {signal['unit']}".strip(), f"{signal['age_s']:.1f} s")
        for signal in record["signals"]
    ]
    if rows:
        yield listing("Signals", ("signal", "value", "age"), rows)
    for name in ("cordoned", "ended", "slept", "woken"):
        if target[name]:
            yield line(f"{name}: {', '.join(target[name])}")
    if target["batch_slots"] is not None:
        yield line(f"batch work beside other work: {target['batch_slots']} slots of each engine")
    if record["idle_gpus"]:
        yield line("idle GPUs: " + ", ".join(f"{count} {reason}" for reason, count in record["idle_gpus"].items()))
    if record["per_hour_after"] is not None:
        yield line(f"price: ${record['per_hour_before']:.2f} to ${record['per_hour_after']:.2f} an hour")
    yield from _reports(found)


def changes(records: Sequence[Record]) -> Iterator[Shown]:
    rows = [
        (
            when(one["at"]),
            one["version"],
            f"{one['before']} → {one['after']}",
            _wish(one),
            one["cut"],
            _because(one),
        )
        for one in records
    ]
    yield listing("Changes, newest first", ("at", "version", "workers", "wish", "cut by", "because"), rows)


def _wish(record: Record) -> str:
    return "unknown" if record["wish"] is None else f"{record['wish']:.2f}"


def _because(record: Record) -> str:
    override = record["override"]
    return f"{_override(override)}: {override['reason']}" if override else str(record["reason"])


def _override(found: Record) -> str:
    return f"override of {found['workers']} until {when(found['until'])} by {found['who']}"


def _reports(found: Record) -> Iterator[Shown]:
    if found["silent"]:
        more = len(found["silent"]) - MOST_SILENT
        silent = ", ".join(found["silent"][:MOST_SILENT]) + (f" and {more} more" if more > 0 else "")
        yield line((f"silent gateways: {silent}; nothing scales in until they report or are gone", Style.BAD))
    elif not found["gateways"]:
        yield line(("no gateway reports; nothing scales in", Style.BAD))
    if found.get("gateways_wanted") is not None:
        yield line(f"gateways: {found['gateways']} report, {found['gateways_wanted']} wanted")
