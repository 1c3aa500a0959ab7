"""The ledger against what the gates counted: random requests of all APIs, with every end that a request can have.

``python -m loadtests.bills --requests 10000``: prints how they ended, and each row that differs by a token. The engines
are toys behind real gates; that the gates' counts are vLLM's own is shown by ``tests/integration/worker``.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.support.scenarios.billing import run, site


def main() -> None:
    """Run, print, and fail if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, site(Path(folder)) as where:
        found = asyncio.run(run(where, options.requests, options.seed))
    sys.stdout.write(f"{found.requests} rows, {found.tokens} tokens\n")
    for title, counts in (("clients", found.ends), ("outcomes", found.outcomes)):
        told = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        sys.stdout.write(f"{title}: {told}\n")
    sys.stdout.write(f"differences: {len(found.differences)}; not exact: {found.inexact}\n")
    sys.stdout.writelines(f"  {line}\n" for line in found.differences)
    sys.exit(bool(found.differences))


if __name__ == "__main__":
    main()
