"""What every test gets: a clean environment, virtual time, seeded chance, and no GPU tests without a GPU."""

import gc
import os
import random
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.clock import ManualClock
from tests.support.tls import one_context

# The infrastructure programs have an environment of their own; here their tests are not even collected.
collect_ignore = [] if find_spec("pulumi") else ["infra"]

gc.disable()  # until all is collected: it would walk the syntax trees of all tests again and again
GARBAGE_AT = 20_000
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
one_context.keep()

NVIDIA_DEVICE = Path("/dev/nvidia0")
SHOWN_FILES = 20
_SECONDS: defaultdict[str, float] = defaultdict(float)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a device where there is none."""
    if NVIDIA_DEVICE.exists():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_collection_finish() -> None:
    """Leave what was collected out of the garbage collector's walks."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_AT)
    gc.enable()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a phase's duration to its file's."""
    _SECONDS[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the files that took longest, fixtures included, if durations are asked for."""
    if terminalreporter.config.option.durations:
        terminalreporter.section(f"slowest {SHOWN_FILES} files")
        for file in sorted(_SECONDS, key=_SECONDS.__getitem__, reverse=True)[:SHOWN_FILES]:
            terminalreporter.line(f"{_SECONDS[file]:7.1f}s {file}")


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> Iterator[None]:
    """Keep the settings of this machine's own platform, and its cloud credentials, out of the tests."""
    kept = dict(os.environ)
    for name in kept:
        if name.startswith(("PENSTOCK_", "AWS_")) and name != "AWS_CA_BUNDLE":
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture
def clock() -> ManualClock:
    """Return time that moves only when told."""
    return ManualClock()


@pytest.fixture
def chance() -> random.Random:
    """Return chance that repeats."""
    return random.Random(20_260)
