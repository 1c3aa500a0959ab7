"""What shadow copies cost answered callers: first bytes at full load, with copies, without, and without again.

Run: ``make bench-shadow``. Real controller, gateways, Postgres and Redis; engines are stand-ins, so that the platform
is measured and not two models on one processor. Rounds alternate; the second round without copies shows the machine's
own noise.
"""

import argparse
import asyncio
import statistics
import sys
import time

import uvloop

from loadtests.bench_gateway import chat
from loadtests.load_client import Timed, closed_loop
from tests.support.platforms.rollouts import ALIAS, STAGES, TENANTS, Town, town

MOST = 1.02
"""The p99 with copies, over that without."""
DELAY_MS = 200.0
STEP_MS = 10.0
CALLERS = 48
TOKENS = 24
SETTLE_S = 2.0
CAPS = {"per_s": 20.0, "tokens_per_s": 1e5, "at_once": 64, "scored_per_s": 5.0}
WHY = {"reason": "a benchmark", "override_budget": True}


class Bench:
    """A site, and its first bytes by what was on."""

    def __init__(self, place: Town, seconds: float) -> None:
        """Take a site whose alias leads to one version."""
        self._place, self._seconds = place, seconds
        self._candidate = place.version(place.site.engines[1])
        self.found: dict[str, list[list[float]]] = {"with": [], "without": [], "without again": []}

    def round(self, number: int) -> None:
        """Measure each once, in another order each time."""
        names = list(self.found)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            self.found[name].append(self._with_copies() if name == "with" else self._asked())

    def copied(self) -> int:
        """Return how many requests the candidate's engine has had."""
        return int(self._place.at[self._candidate].stats["requests"])

    def _with_copies(self) -> list[float]:
        stages = [{"name": "shadow", "weight": 0, "min_s": 3600.0}, *STAGES]
        rollout = self._place.start(self._candidate, stages=stages, shadow=CAPS, **WHY)
        before = self.copied()
        try:
            asked = self._asked()
        finally:
            self._place.call("POST", f"/rollouts/{rollout}/abort", WHY)
        if self.copied() == before:
            raise SystemExit("bench: nothing was copied")
        return asked

    def _asked(self) -> list[float]:
        time.sleep(SETTLE_S)
        gateway = next(iter(self._place.site.gateways.values()))
        keys = [self._place.site.secrets[tenant] for tenant in TENANTS]
        asked = [chat(gateway.url, key, tokens=TOKENS, stream=True, model=ALIAS) for key in keys]
        all_timed = uvloop.run(_all(gateway.url, asked, self._seconds))
        for timed in all_timed:
            if timed.failed or not timed.done:
                raise SystemExit(f"bench: {timed.failed} requests failed, {timed.done} were answered: {timed.why}")
        return [one for timed in all_timed for one in timed.first_byte_s]


async def _all(url: str, asked: list[bytes], seconds: float) -> list[Timed]:
    """Have every tenant ask, as many callers each."""
    callers = CALLERS // len(asked)
    return await asyncio.gather(*(closed_loop(url, one, callers=callers, seconds=seconds) for one in asked))


def p99(seconds: list[float]) -> float:
    """Return the time that one in a hundred is above (seconds)."""
    return statistics.quantiles(seconds, n=100)[98]


def show(found: dict[str, list[list[float]]]) -> bool:
    """Print both ratios; return whether the bound is kept."""
    rounds = {name: [p99(one) for one in ran] for name, ran in found.items()}
    for name, ran in rounds.items():
        many = sum(map(len, found[name]))
        print(f"{name}: p99 of the first byte {statistics.median(ran) * 1e3:.1f} ms, {many} answers")
    ratios = {
        name: statistics.median(one / plain for one, plain in zip(rounds[name], rounds["without"], strict=True))
        for name in ("with", "without again")
    }
    kept = ratios["with"] <= MOST
    print(
        f"with over without {ratios['with']:.3f} (<= {MOST:g}) {'ok' if kept else 'MISSED'}; "
        f"without over without {ratios['without again']:.3f}: the machine's own noise"
    )
    return kept


def main() -> int:
    """Run the benchmark; 0 if the bound is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    with town() as place:
        for engine in place.site.engines:
            engine.behave(delay_ms=DELAY_MS, step_ms=STEP_MS)
        place.lead_to(place.version(place.site.engines[0]))
        bench = Bench(place, arguments.seconds)
        for number in range(arguments.rounds):
            bench.round(number)
            print(f"round {number + 1} of {arguments.rounds}: {bench.copied()} copies so far", flush=True)
        return 0 if show(bench.found) else 1


if __name__ == "__main__":
    sys.exit(main())
