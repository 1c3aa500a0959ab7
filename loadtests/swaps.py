"""Three models in memory for two, by use, on real vLLM: the asked model, the sleeping ones, and the caller's wait.

A platform of its own with a pool that holds two of them: SmolLM2 twice, as two versions, and MiniLM. Each line is one
request, some seconds after the last one: a version that has just woken stays awake for a while, and a request for
another waits for that beside the swap (``--pause 0`` shows it). A stream runs meanwhile in the last round, and ends as
it would have ended alone.

    python -m loadtests.swaps [--rounds 2] [--pause 15] [--home FOLDER]
"""

import argparse
import tempfile
import time
from pathlib import Path

from tests.support.engines.likeness import difference
from tests.support.platforms.pool import SECOND, Answered, PoolSite, pool_site

REPOSITORY = Path(__file__).resolve().parents[1]
TOKENS = 450
LINE = "{:<16}{:<10}{:>8}{:>13}  {:<32}{}"
ORDER = ("smollm2", SECOND, "minilm", SECOND, "smollm2", "minilm")


def main() -> None:
    parser = argparse.ArgumentParser(prog="swaps", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pause", type=float, default=15.0, help="seconds between requests")
    parser.add_argument("--home", type=Path, default=None)
    options = parser.parse_args()
    cache = REPOSITORY / ".penstock/cache"
    kept = {"demo_cache": str(cache / "demo"), "compile_cache": str(cache / "compiled")}
    source = next((cache / "demo").glob("smollm2-*"))
    with (
        tempfile.TemporaryDirectory(prefix="penstock-swaps-", ignore_cleanup_errors=True) as folder,
        pool_site(options.home or Path(folder) / "home", source, kept) as site,
    ):
        show(site, options.rounds, options.pause)


def show(site: PoolSite, rounds: int, pause_s: float) -> None:
    """Ask in turn and print each as it ends, then what a stream said meanwhile."""
    print(LINE.format("asked", "was", "held", "answered in", "says", "asleep then"))
    for model in ORDER * rounds:
        time.sleep(pause_s)
        before = site.state(model)
        _row(model, before, site.ask(model), site)
    with site.stream("smollm2", TOKENS) as alone:
        quiet = list(alone)
    with site.stream("smollm2", TOKENS) as lines:
        said = [next(lines)]
        print(f"a stream of {TOKENS} tokens begins at smollm2")
        for model in (SECOND, "minilm"):
            before = site.state(model)
            _row(model, before, site.ask(model), site)
        said.extend(lines)
    print(f"and ends: {difference(said, quiet) or 'what it was alone, up to rounding'}")


def _row(model: str, before: str, answer: Answered, site: PoolSite) -> None:
    says = "a vector" if "data" in answer.body else answer.text if answer.is_ok else str(answer.status)
    asleep = ", ".join(sorted(name for name, state in site.states.items() if state == "sleeping"))
    held = f"{answer.wake_s:.2f} s" if answer.is_ok and answer.wake_s else ""
    print(LINE.format(model, before, held, f"{answer.seconds:.2f} s", says[:30].strip(), asleep), flush=True)


if __name__ == "__main__":
    main()
