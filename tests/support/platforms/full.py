"""An observed platform with a pool of models, adapters, rules and a rollout, which ``all_traffic`` does not reach.

Its processes speak TLS, and its limits are in Redis.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import httpx

from tests.support.models import trained_adapters
from tests.support.patience import patient, until
from tests.support.platforms.local import Platform
from tests.support.platforms.observed import Observed
from tests.support.scenarios.all_traffic import CHAT, EMBEDDINGS

CLASSIFY = "/v1/classify"
MODELS = "topics,minilm-torch"
POOL_BYTES = 690_000_000
"""The adapters' base and one of these two, not both."""
SETTINGS = {"pool_bytes": str(POOL_BYTES), "tls": "on"}
TERMS = ("--price", "0.02/0.005/0.06", "--licence", "Apache-2.0", "--workers", "1")
ROOM = ("--engine", "adapter_slots=2", "--engine", "adapter_rank=8", "--engine", "max_num_seqs=16")
RULES = {"rules": [{"name": "vectors", "to": "minilm-torch"}, {"name": "rest", "to": "pirate"}]}
TURNS = 3
BIRDS = ("pirate", "raven", "gull")
"""Adapters of one base that are asked for at once: one more than it has slots."""
WORDS = {"input": "The judge sentenced him to ten years in prison."}
TALK = {"messages": [{"role": "user", "content": "What is the capital of Japan?"}], "max_tokens": 12, "stream": True}


def prepare(observed: Observed, source: Path) -> None:
    """Make a base of SmolLM2's folder, an alias that goes from one adapter of it to another, and a name for rules."""
    platform = observed.platform
    base = _pushed(platform, source, "base", *ROOM)
    until("the base serves", lambda: bool(observed.query(f'penstock_workers{{version="{base}",state="ready"}} > 0')))
    made = trained_adapters.trained("pirate", source)
    first, second = (_pushed(platform, made, name, "--base", base) for name in ("pirate", "parrot"))
    platform.run("aliases", "set", "pirate", first)
    for name in BIRDS[1:]:
        platform.run("aliases", "set", name, _pushed(platform, made, name, "--base", base))
    platform.run("rollout", "start", "pirate", second, "--shares", "50,100")
    rules = platform.home / "rules.yaml"
    rules.write_text(json.dumps(RULES))
    platform.run("aliases", "auto", "auto", "--file", str(rules))
    until("the gateway knows", lambda: _asked(platform, EMBEDDINGS, {"model": "auto", **WORDS}) == httpx.codes.OK)


def run(platform: Platform) -> None:
    """Ask the two classic models in turn, each of which wakes for it, beside the adapters' callers."""
    over = threading.Event()
    talking = [threading.Thread(target=partial(_talk, platform, over, (name, "auto"))) for name in BIRDS]
    for one in talking:
        one.start()
    try:
        for _ in range(TURNS):
            for path, model in ((CLASSIFY, "topics"), (EMBEDDINGS, "auto")):
                assert _asked(platform, path, {"model": model, **WORDS}) == httpx.codes.OK
    finally:
        over.set()
        for one in talking:
            one.join()
    platform.run("rollout", "abort", "pirate", "--reason", "all has been seen")


def _pushed(platform: Platform, folder: Path, name: str, *more: str) -> str:
    """Return the version that a folder became."""
    told = platform.run("models", "push", str(folder), "--name", name, *TERMS, *more, within_s=patient(120))
    return told.stdout.strip().splitlines()[-1]


def _talk(platform: Platform, over: threading.Event, models: Sequence[str]) -> None:
    while not over.wait(0.2):
        for model in models:
            _asked(platform, CHAT, {"model": model, **TALK})


def _asked(platform: Platform, path: str, body: Mapping[str, object]) -> int:
    """Return the status of an answer that is read to its end; the request comes in two pieces."""
    with platform.http(timeout_s=patient(60)) as http:
        return http.post(path, content=_in_pieces(body), headers={"content-type": "application/json"}).status_code


def _in_pieces(body: Mapping[str, object]) -> Iterator[bytes]:
    text = json.dumps(body).encode()
    yield text[:1]
    time.sleep(0.05)
    yield text[1:]
