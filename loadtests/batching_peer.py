"""Another project's batching under the same load, in its own environment: ``-m loadtests.batching_peer NAME
MODEL``.

Reads arrivals as a line of JSON and prints their outcomes, until the input ends. Both are asked in their process,
without HTTP: the comparison is of when each starts which batch.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from loadtests.batching_load import KINDS, WINDOW_S, Ask, Model, meet


def ray_serve(model: Model) -> Ask:
    """Return Ray Serve's ``@serve.batch``; the model runs beside its event loop, as with us."""
    from ray import serve  # noqa: PLC0415  of this peer's environment alone
    from ray.serve import context  # noqa: PLC0415
    from ray.serve._private.common import DeploymentID, ReplicaID  # noqa: PLC0415

    threads = ThreadPoolExecutor(1)
    config = SimpleNamespace(max_ongoing_requests=1 << 20)
    context._set_internal_replica_context(  # noqa: SLF001  it asks its replica how much may be under way
        replica_id=ReplicaID("1", DeploymentID("embed", "bench")),
        servable_object=model,
        _deployment_config=config,
        rank=None,
        world_size=1,
    )

    @serve.batch(max_batch_size=model.kind.most_items, batch_wait_timeout_s=WINDOW_S)
    async def embed(items: list[object]) -> list[object]:
        return await asyncio.get_running_loop().run_in_executor(threads, model, items)

    return lambda _: embed(0)


def bentoml(model: Model) -> Ask:
    """Return BentoML's adaptive batching, which knows the promise and refuses requests that it can't serve in time."""
    from bentoml._internal.marshal.dispatcher import CorkDispatcher  # noqa: PLC0415

    kind = model.kind
    made = CorkDispatcher(int(kind.slo_s * 1e3), kind.most_items, fallback=lambda: None, get_batch_size=lambda _: 1)
    corked = made(model)
    return lambda _: corked(0)


PEERS: dict[str, Callable[[Model], Ask]] = {"ray": ray_serve, "bentoml": bentoml}


async def main(name: str, kind: str) -> None:
    model = Model(KINDS[kind])
    ask = PEERS[name](model)
    print(json.dumps("ready"), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await meet(ask, model, json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
