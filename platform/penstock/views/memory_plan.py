"""A memory plan: what fills the GPU, what the rest holds, and the settings that follow."""

from collections.abc import Iterable, Iterator

from penstock.views.elements import Listing, Record, Shown, Style, line, listing, prose

GIB = 1 << 30


def shown(found: Record) -> Iterator[Shown]:
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
    rows = [(one["name"], one["value"], one["because"]) for one in found["settings"]]
    return listing("Engine settings", ("setting", "value", "because"), rows)


def _ways(title: str, ways: Iterable[Record]) -> list[Shown]:
    rows = [
        (
            one["way"],
            _gib(one["weight_bytes"]),
            f"{one['kv_tokens']:,}" if one["fits"] else "-",
            f"{one['at_lengths']:,}" if one["fits"] else "does not fit",
            f"{one['step_ms']:.1f}",
        )
        for one in ways
    ]
    return [listing(title, ("way", "weights GiB", "KV tokens", "requests", "step ms"), rows)] if rows else []


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"
