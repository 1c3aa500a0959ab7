"""Make ``loadtests/fits`` from the public traces: ``python -m loadtests.plan.fitting FOLDER``.

Run by hand when a trace is new; the files it writes are kept, the traces are not.
"""

import csv
import gzip
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import yaml

from loadtests.plan import fits, traces
from loadtests.plan.fits import Client, Fit, Sharing
from loadtests.plan.lengths import fitted
from loadtests.plan.traces import BLOCK_TOKENS, Traced

CLIENTS = 12
"""The busiest clients that a fit names."""
SAMPLE = 40_000
PARTS = 8
"""Into how many parts by length prompts are told apart: longer ones go on more often."""


def azure(folder: Path) -> Fit:
    """Fit Azure's conversation trace."""
    file = "azure2023_conv.csv.gz"
    asked = traces.azure(folder / file)
    gaps = [b.at_s - a.at_s for a, b in pairwise(asked)]
    return Fit(
        says="Conversations with a large model: prompts of a thousand tokens, answers of a hundred.",
        source="AzurePublicDataset, AzureLLMInferenceTrace conv 2023; Splitwise, ISCA'24",
        licence="CC-BY-4.0",
        file=file,
        requests=len(asked),
        arrivals_cv=round(statistics.pstdev(gaps) / statistics.fmean(gaps), 3),
        prompt_tokens=fitted([one.prompt_tokens for one in asked]),
        output_tokens=fitted([one.output_tokens for one in asked]),
    )


def mooncake(folder: Path) -> Fit:
    """Fit Mooncake's conversation trace; its clock is too coarse for gaps."""
    file = "mooncake_conversation.jsonl.gz"
    asked = traces.mooncake(folder / file)
    return Fit(
        says="Conversations with long contexts: prompts of seven thousand tokens, many go on with an earlier one.",
        source="kvcache-ai/Mooncake, FAST25-release, conversation trace; Mooncake, FAST'25",
        licence="Apache-2.0",
        file=file,
        requests=len(asked),
        prompt_tokens=fitted([one.prompt_tokens for one in asked]),
        output_tokens=fitted([one.output_tokens for one in asked]),
        sharing=_sharing(asked),
    )


def _sharing(asked: Sequence[Traced]) -> Sharing:
    shared_ratio, back, continues = [], [], list[bool]()
    for shared, one, requests_back in sorted(_shared_blocks(asked), key=lambda each: each[1].prompt_tokens):
        continues.append(shared > 1)
        if shared > 1:
            shared_ratio.append(min(1.0, shared * BLOCK_TOKENS / one.prompt_tokens))
            back.append(requests_back)
    part = math.ceil(len(asked) / PARTS)
    return Sharing(
        system_tokens=BLOCK_TOKENS,
        continues_ratio=tuple(
            round(statistics.fmean(continues[at : at + part]), 4) for at in range(0, len(asked), part)
        ),
        shared_ratio=fitted(shared_ratio),
        requests_back=fitted(back),
    )


def _shared_blocks(asked: Sequence[Traced]) -> Iterator[tuple[int, Traced, int]]:
    """Yield how many blocks of each prompt came before, and how many requests ago the last of them did."""
    seen: dict[int, int] = {}
    for number, one in enumerate(asked):
        shared = next((at for at, block in enumerate(one.blocks) if block not in seen), len(one.blocks))
        yield shared, one, number - seen[one.blocks[shared - 1]] if shared else 0
        seen.update(dict.fromkeys(one.blocks, number))


def servegen(folder: Path) -> Fit:
    """Fit ServeGen's small model: its clients differ in share and burstiness, over a day."""
    hours: dict[int, list[float]] = defaultdict(list)
    rates: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with gzip.open(folder / "servegen_m-small_clients.csv.gz", "rt") as rows:
        for row in csv.DictReader(rows):
            hours[int(row["t_start_s"]) // 3600 % 24].append(float(row["rate_per_s"]))
            rates[row["client_id"]].append((float(row["rate_per_s"]), float(row["cv"])))
    weight = {client: sum(rate for rate, _ in windows) for client, windows in rates.items()}
    total, mean = sum(weight.values()), statistics.fmean(map(sum, hours.values()))
    busiest = sorted(weight, key=lambda client: -weight[client])[:CLIENTS]
    prompts, outputs = _lengths(folder / "servegen_m-small_lengths.jsonl.gz", weight)
    return Fit(
        says="A provider's small model: many clients of very different size and burstiness, through a day.",
        source="alibaba/ServeGen, m-small; arXiv 2505.09999",
        licence="Apache-2.0",
        file="servegen_m-small_clients.csv.gz",
        requests=round(600 * total),
        prompt_tokens=fitted(prompts),
        output_tokens=fitted(outputs),
        hours=tuple(round(sum(hours[hour]) / mean, 3) for hour in range(24)),
        clients=tuple(
            Client(share=round(weight[client] / total, 4), cv=round(_weighted(rates[client]), 2)) for client in busiest
        ),
    )


def _weighted(windows: Sequence[tuple[float, float]]) -> float:
    return sum(rate * cv for rate, cv in windows) / sum(rate for rate, _ in windows)


def _lengths(path: Path, weight: dict[str, float]) -> tuple[list[int], list[int]]:
    """Return a sample of lengths, each client's by its share of the requests."""
    prompts, outputs = list[int](), list[int]()
    total = sum(weight.values())
    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    windows: dict[str, int] = defaultdict(int)
    for row in rows:
        windows[str(row["client_id"])] += 1
    for row in rows:
        client = str(row["client_id"])
        size = weight.get(client, 0.0) / total / windows[client] * SAMPLE
        prompts += _spread(row["input_tokens"], size)
        outputs += _spread(row["output_tokens"], size)
    return prompts, outputs


def _spread(row: dict[str, float], size: float) -> list[int]:
    whole = sum(row.values())
    return [max(1, int(value)) for value, p in row.items() for _ in range(round(size * p / whole))]


def main() -> None:
    folder = Path(sys.argv[1])
    for name, fit in {
        "azure-conversation": azure(folder),
        "mooncake-conversation": mooncake(folder),
        "servegen-small": servegen(folder),
    }.items():
        data = {key: value for key, value in msgspec.to_builtins(fit).items() if value not in (None, [], ())}
        path = fits.FOLDER / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=118, allow_unicode=True))
        print(f"{path}: {fit.requests} requests")


if __name__ == "__main__":
    main()
