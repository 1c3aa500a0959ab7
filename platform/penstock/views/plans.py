"""Plans: memory of a GPU with the resulting settings, and a capacity plan from peak traffic to machines and money."""

import datetime as dt
from collections.abc import Iterator, Sequence

from penstock.views.elements import Cell, Listing, Record, Shown, Style, line, listing, of, prose, table

GIB = 1 << 30


def memory(found: Record) -> Iterator[Shown]:
    yield line((found["model"], Style.STRONG), f" on {found['gpus']} x {found['gpu']}")
    yield _memory(found)
    if found["missing_bytes"]:
        yield line(
            ("does not fit: ", Style.BAD),
            f"{_gib(found['missing_bytes'])} GiB more for one request of {found['context_tokens']:,} tokens",
        )
        yield from _ways("Fits instead", found["fitting"]) or [prose("On one node nothing here fits.", Style.MUTED)]
        return
    yield line(
        f"{found['kv_tokens']:,} tokens of KV cache · ",
        f"{found['at_longest']:.1f} requests of {found['context_tokens']:,} tokens · ",
        f"{found['at_lengths']:,} requests of these lengths",
    )
    yield _settings(found)
    yield from _ways("Precisions", found["precisions"])
    yield from _ways("MIG slices: memory and arithmetic of their own", found["slices"])
    yield prose("Marked lines and steps are assumed from data sheets and logs.", Style.MUTED)


def _memory(found: Record) -> Listing:
    rows = [(one["name"], _gib(one["bytes"]), _because(one)) for one in found["lines"]]
    rows.append(
        (
            "KV cache",
            _gib(found["kv_bytes"]),
            f"the rest of {found['used_ratio']:.0%} of {_gib(found['memory_bytes'])} GiB",
        )
    )
    return listing("Memory of a GPU", ("part", "GiB", "because"), rows)


def _because(one: Record) -> str:
    return f"{one['because']} (assumed)" if one["is_assumed"] else str(one["because"])


def _settings(found: Record) -> Listing:
    return table("Engine settings", found["settings"], {"setting": "name", "value": "value", "because": "because"})


def _ways(title: str, ways: Sequence[Record]) -> list[Shown]:
    columns: dict[str, Cell] = {
        "way": "way",
        "weights GiB": of(_gib, "weight_bytes"),
        "KV tokens": lambda one: f"{one['kv_tokens']:,}" if one["fits"] else "-",
        "requests": lambda one: f"{one['at_lengths']:,}" if one["fits"] else "does not fit",
        "step ms": of("{:.1f}".format, "step_ms"),
    }
    return [table(title, ways, columns)] if ways else []


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"


def start(found: Record) -> Iterator[Shown]:
    yield line((found["model"], Style.STRONG), f" on a {found['machine']} machine: {found['seconds']:,.0f} s")
    rows = [(one["part"], f"{one['seconds']:,.1f}", one["source"]) for one in found["parts"]]
    yield listing("Cold start", ("part", "seconds", "source"), rows)


def capacity(found: Record) -> Iterator[Shown]:
    each = f" of {found['gpus_of_a_replica']} GPUs" if found["gpus_of_a_replica"] > 1 else ""
    yield line((found["model"], Style.STRONG), f" on {found['gpu']}")
    rows = [(one["name"], f"{one['value']:,.4g}", one["unit"], one["formula"]) for one in found["figures"]]
    yield listing("Sheet", ("figure", "value", "unit", "formula"), rows)
    more = found["replicas_if_slower"] - found["replicas"]
    doubt = f"; {more} more if steps are {found['curve_error']:.0%} slower" if more else ""
    yield line((f"{found['replicas']} replicas{each}", Style.STRONG), f", bound by {found['binding']}{doubt}")
    if found["per_hour"] is not None:
        yield line(
            f"${found['per_hour']:,.2f} an hour · ${found['per_1k_tokens']:.6f} per 1k tokens at the peak · ",
            f"the next 10 % cost {found['next_tenth_replicas']} replicas, ${found['next_tenth_per_hour']:,.2f} an hour",
        )
    if found["misses_ttft"]:
        yield line(("misses TTFT: ", Style.BAD), "a prompt alone takes longer than the objective on this GPU")
    yield prose(_survived(found), Style.MUTED)
    yield _curve(found)


def _curve(found: Record) -> Shown:
    if found["curve_measured_at"] is None:
        return prose(
            f"A default: steps are by data sheet, not measured: within {found['curve_error']:.0%} of published runs. "
            "penstock bench engine measures them.",
            Style.UNSURE,
        )
    day = dt.datetime.fromtimestamp(found["curve_measured_at"], dt.UTC)
    return prose(
        f"Steps are measured on {found['curve']}, {day:%Y-%m-%d} ({found['curve_origin']}): "
        f"within {found['curve_error']:.1%} at points held out.",
        Style.MUTED,
    )


def _survived(found: Record) -> str:
    zone = f"One of {found['zones']} zones may be lost" if found["zones"] > 1 else "No zone may be lost"
    region = (
        f"a lost region sends {found['other_region_per_s']:g} requests/s"
        if found["other_region_per_s"]
        else "none kept"
    )
    return f"{zone} at the peak. Room for another region's traffic: {region}."
