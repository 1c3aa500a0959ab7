"""Public traces, read by path and never shipped: requests with their own times, lengths and shared prefixes."""

import csv
import gzip
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

BLOCK_TOKENS = 512
BUCKET_S = 3.0
"""Mooncake's times are rounded to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One request of a trace; ``blocks`` are the ids of its prompt's blocks: equal ids, equal text."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


def azure(path: Path) -> list[Traced]:
    """Read Azure's conversation trace of 2023."""
    with gzip.open(path, "rt") as lines:
        rows = list(csv.DictReader(lines))
    times = [datetime.fromisoformat(row["TIMESTAMP"][:26]).replace(tzinfo=UTC).timestamp() for row in rows]
    return [
        Traced(at_s=at_s - times[0], prompt_tokens=int(row["ContextTokens"]), output_tokens=int(row["GeneratedTokens"]))
        for at_s, row in zip(times, rows, strict=True)
    ]


def mooncake(path: Path) -> list[Traced]:
    """Read Mooncake's conversation trace; each bucket's requests are spread over it evenly, by a fixed seed."""
    chance = random.Random(0)
    with gzip.open(path, "rt") as lines:
        read = [json.loads(line) for line in lines]
    found = [
        Traced(
            at_s=row["timestamp"] / 1000 + chance.uniform(0, BUCKET_S),
            prompt_tokens=row["input_length"],
            output_tokens=row["output_length"],
            blocks=tuple(row["hash_ids"]),
        )
        for row in read
    ]
    return sorted(found, key=lambda one: one.at_s)


READERS: Mapping[str, Callable[[Path], list[Traced]]] = {
    "azure2023_conv.csv.gz": azure,
    "mooncake_conversation.jsonl.gz": mooncake,
}


class TraceRefused(Exception):
    """A trace can't be replayed; the message says why."""


def read(path: Path) -> list[Traced]:
    """Read a trace by its file's name, or raise ``TraceRefused``."""
    if path.name not in READERS:
        raise TraceRefused(f"no reader knows {path.name}; there are {', '.join(READERS)}")
    if not path.exists():
        raise TraceRefused(f"there is no file {path}")
    return READERS[path.name](path)
