"""The load test against the running platform on real vLLM: what it carries, what it cannot, what the ledger says."""

import pytest

from tests.support.clients.loadtest import Ended, Patient, loadtest
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.observed import Observed
from tests.support.platforms.tenants import key_of

pytestmark = [pytest.mark.observe, pytest.mark.integration]
TENANT = "load-tester"
SMALL = ("--model", "smollm2", "--lengths", 0.02, "--mix", "one")
"""Prompts and answers that an engine on two cores carries some of each second."""


@pytest.fixture(scope="module")
def platform(observed: Observed) -> Platform:
    return observed.platform


@pytest.fixture(scope="module")
def key(platform: Platform) -> str:
    """Return the key of a tenant of the load test alone."""
    return key_of(platform, TENANT)


@pytest.fixture(scope="module")
def carried(platform: Platform, key: str, very_patient: Patient, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return a short run that the platform can carry."""
    words = ("steady", "--target", platform.url, *SMALL, *very_patient, "--rate", 3, "--duration", 12)
    return loadtest(tmp_path_factory.mktemp("carried"), *words, key=key)


def test_what_the_platform_carries_ends_with_0(carried: Ended) -> None:
    """Every promise is kept by enough requests, and the command ends with 0."""
    assert carried.code == 0, carried.said
    assert "every promise was kept" in carried.said
    assert {one["finding"] for one in carried.verdict["objectives"] if not one["tenant"]} == {"kept"}


def test_its_tokens_are_those_of_the_ledger(platform: Platform, carried: Ended) -> None:
    """The ledger, which never saw the load test, has as many requests and the very same tokens."""
    ours = carried.records

    def told() -> tuple[int, int, int]:
        rows = platform.usage(TENANT)
        return (
            len(rows),
            sum(int(row["prompt_tokens"]) for row in rows),
            sum(int(row["output_tokens"]) for row in rows),
        )

    expected = (
        len(ours),
        sum(one.prompt_tokens or 0 for one in ours),
        sum(one.output_tokens or 0 for one in ours),
    )
    until("the rows are delivered", lambda: told()[0] >= len(ours))
    assert told() == expected


def test_what_it_can_not_carry_ends_with_1(platform: Platform, key: str, very_patient: Patient, carried: Ended) -> None:
    """Many times the requests break promises, refusals name a time to come back, and the command ends with 1."""
    words = ("burst", "--target", platform.url, *SMALL, *very_patient, "--rate", 40, "--duration", 4, "--timeout", 6)
    ended = loadtest(carried.folder.parent / "overrun", *words, key=key)
    assert ended.code == 1, ended.said
    broken = {one["indicator"] for one in ended.verdict["objectives"] if one["finding"] == "broken"}
    assert broken & {"ttft", "availability"}
    (caller,) = ended.verdict["tenants"]
    assert caller["refused_without_retry_after"] == 0
