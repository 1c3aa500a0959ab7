"""Runs the tests in lanes beside one another: ``python -m tests.lanes [--only NAME | --gate] [pytest's options]``.

Tests of processes mostly wait for them and tests of logic mostly compute, so one after the other both leave half of a
small machine idle. A lane is one pytest; a test is in the lane that names its folder, or in the last one. Output comes
line by line behind the lane's name, and the last line adds the lanes up as pytest's own would.

A few tests that failed are repeated when all lanes are through, alone on the machine (ADR 0079). The second result
counts, and the last lines name these tests: a busy machine is told from a fault, and neither is hidden.
Without a choice there are the quick lanes. With ``--only NAME`` there is one, of what pytest's options choose. With
``--gate`` all gates run: the observed platforms first, beside types and infrastructure, then other processes' lanes.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "faults": tuple(f"tests/integration/{name}" for name in ("faults", "rollout", "jobs", "job_store")),
    "workers": tuple(
        f"tests/integration/{name}" for name in ("worker", "gateway", "limits", "adapters", "pool", "scaling")
    ),
    "platforms": ("tests/integration",),
    "logic": ("tests",),
}
"""The lanes; a folder that an earlier lane has is left out of a later one."""
QUICK = ("platforms", "logic")
"""The lanes of ``make test``: each kind of test, on real engines, too. The gate adds faults, single workers and
measurements.
"""
OBSERVED = tuple(f"tests/integration/{name}" for name in ("observe", "diagnose", "drills", "load"))
"""Tests of measurements: in the gate no other lane of real processes runs beside them."""
STATIC = ("types", "imports", *(("infra-test",) if (ROOT / "infra/infra.mk").exists() else ()))
"""Targets of the Makefile that need no process of the platform."""
POLITE = {"logic": 5, "static": 5}
"""Lanes that only compute, and how far they stand back for those that watch a clock."""
FAILED = 1
NOTHING_COLLECTED = 5
AGAIN_AT_MOST = 6
"""More failures than this are no chance of a busy machine: nothing is asked again."""
_COUNTED = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?)")
_LAST = re.compile(r"\d+ \w+.* in [0-9.]+s")
_CUT_SHORT = re.compile(r"^!{3,}")


@dataclass(slots=True)
class Lane:
    """One pytest: what it is called with, and what it said of itself in its last line."""

    name: str
    command: Sequence[str]
    exit_code: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    cut_short: bool = False
    again: list[str] = field(default_factory=list)
    after: "Lane | None" = None
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Run it to its end, line by line onto the screen, once the lane before it is over."""
        if self.after is not None:
            self.after.over.wait()
        self._cache.unlink(missing_ok=True)
        try:
            self._run(["nice", "-n", str(POLITE.get(self.name, 0)), *self.command])
        finally:
            self.over.set()

    def run_again(self) -> None:
        """Ask what failed once more; what it says now counts."""
        self.again = self.failed()
        first, self.counts = self.counts, Counter()
        self._run([*self.command, "--last-failed", "--last-failed-no-failures=none"])
        if not self.counts:  # it did not start: the first result stands
            self.counts = first
            return
        asked = {what: self.counts[what] for what in ("failed", "error")}
        self.counts["passed"] += first["passed"]
        self.counts = Counter({**first, **asked, "passed": self.counts["passed"], "rerun": len(self.again)})

    def failed(self) -> list[str]:
        """Return the tests that failed, as pytest keeps them; none where the lane did not get to its end."""
        if self.exit_code != FAILED or self.cut_short or not self._cache.exists():
            return []
        return sorted(json.loads(self._cache.read_text()))

    @property
    def _cache(self) -> Path:
        return ROOT / cache_folder(self.name) / "v/cache/lastfailed"

    def _run(self, command: Sequence[str]) -> None:
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                sys.stdout.write(f"{self.name:>9} | {line}")
                sys.stdout.flush()
                self.cut_short |= bool(_CUT_SHORT.match(line))
                if _LAST.search(line):
                    self.counts = counted(line)
        self.exit_code = process.returncode


def environment() -> dict[str, str]:
    """Return what the lanes run with: here Python keeps what it compiled, whatever the machine's own habit is.

    Tests start many hundred processes of ours, each of which would compile all our modules anew.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def counted(line: str) -> Counter[str]:
    """Return what pytest's last line counts."""
    return Counter({what.removesuffix("s") if what != "passed" else what: int(n) for n, what in _COUNTED.findall(line)})


def folders_of(name: str) -> list[str]:
    """Return the paths of a lane, and what it leaves to the lanes before it, as pytest's options."""
    names = list(FOLDERS)
    before = [folder for one in names[: names.index(name)] for folder in FOLDERS[one]]
    return [*FOLDERS[name], *(f"--ignore={folder}" for folder in before)]


def cache_folder(name: str) -> str:
    """Return where a lane's pytest keeps what failed."""
    return f".pytest_cache/{name}"


def lane(name: str, options: Iterable[str]) -> Lane:
    """Return a lane of what pytest's options choose."""
    return Lane(name, [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache_folder(name)}", *options])


def lanes(options: Iterable[str], names: Iterable[str] = tuple(FOLDERS)) -> list[Lane]:
    """Return these lanes, or all."""
    given = list(options)
    return [lane(name, [*folders_of(name), *given]) for name in names]


def gate(options: Iterable[str]) -> list[Lane]:
    """Return the lanes of all gates; ``options`` are those of each pytest."""
    given = list(options)
    observed = lane("observed", [*OBSERVED, "-m", "observe and not drill", *given, "--session-timeout=1200"])
    static = Lane("static", ["make", "--keep-going", "--no-print-directory", *STATIC])
    tests = {one.name: one for one in lanes(["-m", "not gpu and not drill and not observe", *given])}
    tests["logic"] = lane("logic", [*folders_of("logic"), "-m", "not gpu and not drill", *given])
    for name in FOLDERS.keys() - {"logic"}:
        tests[name].after = observed
    return [observed, static, *tests.values()]


def asked_again(ran: Sequence[Lane]) -> list[Lane]:
    """Return the lanes whose failed tests are to be asked again: all that failed, where those are few."""
    few = 0 < sum(len(one.failed()) for one in ran) <= AGAIN_AT_MOST
    return [one for one in ran if one.failed()] if few else []


def verdict(ran: Sequence[Lane]) -> int:
    """Return the exit status of all together: a lane in which nothing was chosen is no failure where another ran."""
    codes = [lane.exit_code for lane in ran]
    if set(codes) == {NOTHING_COLLECTED}:
        return NOTHING_COLLECTED
    return max((abs(code) for code in codes if code != NOTHING_COLLECTED), default=0)


def summary(ran: Sequence[Lane], seconds: float) -> str:
    """Return the last line, in the form of pytest's."""
    total = sum((lane.counts for lane in ran), Counter[str]())
    order = ("failed", "error", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning", "rerun")
    said = ", ".join(f"{total[what]} {what}" for what in order if total[what]) or "no tests ran"
    broken = [lane.name for lane in ran if lane.exit_code not in (0, NOTHING_COLLECTED)]
    return f"{said} in {seconds:.2f}s" + (f" (look at: {', '.join(broken)})" if broken else "")


def main(options: Sequence[str]) -> int:
    """Run all lanes and say how they ended."""
    match list(options):
        case ["--only", name, *rest]:
            ran = [lane(name, rest)]
        case ["--gate", *rest]:
            ran = gate(rest)
        case rest:
            ran = lanes(rest, QUICK)
    began = time.monotonic()
    threads = [threading.Thread(target=one.run) for one in ran]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in asked_again(ran):
        one.run_again()
    for name in (name for one in ran for name in one.again):
        sys.stdout.write(f"failed beside others and was asked again alone: {name}\n")
    sys.stdout.write(summary(ran, time.monotonic() - began) + "\n")
    return verdict(ran)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
