"""Multi-tenant traffic from ServeGen's client models (Xiang et al., arXiv 2505.09999; data Apache-2.0).

Each client has its own rate, burstiness (Gamma or Weibull inter-arrivals) and length distributions. The rates are those
of a whole provider, and are scaled to one worker.
"""

import csv
import gzip
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.simulator.worker import Arrival
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """In one window: its arrivals and the lengths of its prompts and answers with their weights."""

    name: str
    rate_per_s: float
    shape: float
    weibull: bool
    prompts: tuple[tuple[int, float], ...]
    outputs: tuple[tuple[int, float], ...]


def clients(folder: Path, pool: str, at_s: int) -> list[Client]:
    lengths = _lengths(folder / f"servegen_{pool}_lengths.jsonl.gz", at_s)
    found = []
    with gzip.open(folder / f"servegen_{pool}_clients.csv.gz", "rt") as rows:
        for row in csv.DictReader(rows):
            if int(row["t_start_s"]) == at_s // 600 * 600 and row["client_id"] in lengths:
                prompts, outputs = lengths[row["client_id"]]
                found.append(
                    Client(
                        name=f"client-{row['client_id']}",
                        rate_per_s=float(row["rate_per_s"]),
                        shape=float(row["param1"]),
                        weibull=row["pattern"] == "Weibull",
                        prompts=prompts,
                        outputs=outputs,
                    )
                )
    return found


Lengths = tuple[tuple[int, float], ...]


def _lengths(path: Path, at_s: int) -> dict[str, tuple[Lengths, Lengths]]:
    best: dict[str, tuple[int, tuple[Lengths, Lengths]]] = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            distance = abs(row["t_start_s"] % 86_400 - at_s % 86_400)
            client = str(row["client_id"])
            if client not in best or distance < best[client][0]:
                best[client] = (distance, (_weights(row["input_tokens"]), _weights(row["output_tokens"])))
    return {client: lengths for client, (_, lengths) in best.items()}


def _weights(row: dict[str, float]) -> Lengths:
    return tuple((max(1, int(value)), weight) for value, weight in row.items())


def arrivals(traffic: list[Client], *, scale: float, span_s: float, chance: random.Random) -> Iterator[Arrival]:
    for client in traffic:
        mean_s, at, number = 1 / (client.rate_per_s * scale), 0.0, 0
        prompts, outputs = zip(*client.prompts, strict=True), zip(*client.outputs, strict=True)
        (prompt_sizes, prompt_weights), (output_sizes, output_weights) = prompts, outputs
        while (at := at + _gap(client, mean_s, chance)) < span_s:
            number += 1
            prompt = min(1800, chance.choices(prompt_sizes, prompt_weights)[0])
            output = min(512, chance.choices(output_sizes, output_weights)[0])
            yield Arrival(at=at, work=_work(client, number, prompt, output), output_tokens=output)


def _gap(client: Client, mean_s: float, chance: random.Random) -> float:
    if client.weibull:
        gap = chance.weibullvariate(1.0, client.shape)
        return gap * mean_s / _weibull_mean(client.shape)
    return chance.gammavariate(client.shape, mean_s / client.shape)


def _weibull_mean(shape: float) -> float:

    return math.gamma(1 + 1 / shape)


def _work(client: Client, number: int, prompt: int, output: int) -> Work:
    return Work(
        request=RequestId(f"{client.name}/{number}"),
        tenant=TenantId(client.name),
        standing=Standing.PAID,
        weight=1.0,
        prompt_tokens=prompt,
        expected_output_tokens=output,
    )
