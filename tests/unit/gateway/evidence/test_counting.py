"""Evidence at the gateway: what an ended request adds to its arm, and what no caller can make of it."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.errors import ContextTooLong, Overloaded
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, RequestId, TenantId, VersionId, WorkerId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Degradation, FinishReason, Outcome, Stage
from penstock.domain.rollout.arms import ArmCounts, ArmSecond, Stratum, bucket, price_bucket, stratum
from penstock.domain.serving.report import Load, Report
from penstock.domain.serving.shadow import Copy
from penstock.domain.serving.slo import Pace
from penstock.domain.tokens import UNKNOWN, Usage
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.evidence.counting import Arms, Shared
from penstock.gateway.evidence.totals import MOST_EXPOSED
from penstock.gateway.routing.resolve import sticky_key
from tests.support.clock import ManualClock
from tests.support.samples import calls

WORKER = WorkerEntry(id=WorkerId("w1"), url="http://w1", state=WorkerState.READY, load=Load(running=3))
OK = Answer(outcome=Outcome.OK, usage=Usage(prompt_tokens=100, cached_tokens=36, output_tokens=5), itl_s=(0.02, 0.04))


class House:
    """What counts, and what it has counted."""

    def __init__(self, clock: ManualClock, longest: int = 2048) -> None:
        self.clock = clock
        self.arms = Arms(
            clock,
            "g",
            "life",
            sticky=sticky_key,
            shared=lambda name: Shared(Alias(name), longest) if name == "toy" else None,
            is_alias=lambda name: name in ("toy", "exp"),
        )

    def second(self) -> ArmSecond:
        found = self.arms.take()
        assert found is not None
        return found

    def arm(self) -> ArmCounts:
        (found,) = self.second().arms
        return found


@pytest.fixture
def house(clock: ManualClock) -> House:
    return House(clock)


def a_call(tenant: str = "acme", user: str = "", **changes: Any) -> Admitted:  # noqa: ANN401  any field of a request
    body = {"model": "toy", "messages": [], **({"user": user} if user else {}), **changes.pop("body", {})}
    call = calls.call(body=body, **changes)
    call = replace(call, principal=replace(call.principal, tenant=TenantId(tenant)))
    call.attempts.worker = WORKER
    call.timings.put(Stage.QUEUE, 9.0)
    call.timings.put(Stage.PREFILL, 0.25)
    return call


def test_an_answer_counts_its_times_price_and_end(house: House) -> None:
    """In the stratum of what had to be computed and of who ran beside it; the wait at the door is left out."""
    house.arms.ended(a_call(), OK)
    second = house.second()
    assert (second.gateway, second.life, second.number, second.at) == ("g", "life", 1, int(house.clock.now()))
    (arm,) = second.arms
    assert (arm.alias, arm.version, arm.worker) == ("toy", calls.VERSION.id, "w1")
    assert arm.ttft == ((stratum(64, 3), ((bucket(0.25), 1),)),)
    assert arm.itl == ((stratum(64, 3), ((bucket(0.03), 1),)),)
    assert [one.stratum for one in arm.price] == [Stratum(0, 0)]
    assert (arm.good, arm.bad, arm.refused, arm.answers, arm.empty, arm.cut) == (1, 0, 0, 1, 0, 0)
    assert (arm.prompt_tokens, arm.output_tokens, arm.exposed) == (100, 5, (("acme", 105),))
    assert house.arms.take() is None


def test_requests_are_counted_by_the_alias_that_they_name(house: House) -> None:
    """Also where one version answers for it alone; pinned versions and copies are nobody's requests of an alias."""
    for name in ("toy", "exp", "exp", "toy@0123456789ab"):
        house.arms.ended(a_call(model=name), OK)
    house.arms.ended(a_call(model="exp"), Answer(outcome=Outcome.NO_CAPACITY, usage=UNKNOWN))
    house.arms.ended(a_copy(), OK)
    assert dict(house.second().asked) == {"toy": 1, "exp": 3}
    house.arms.ended(a_call(model="exp"), OK)
    assert (house.second().arms, house.arms.take()) == ((), None)


def test_who_names_a_version_or_gets_a_lesser_answer_is_no_evidence(house: House) -> None:
    """Pinned versions and degraded answers count nowhere."""
    house.arms.ended(a_call(model="toy@0123456789ab"), OK)
    lesser = a_call()
    lesser = replace(lesser, degraded=(Degradation.OUTPUT_CAPPED,))
    house.arms.ended(lesser, OK)
    assert house.second().arms == ()


def test_what_a_fallback_had_counts_against_the_version_that_was_dead(house: House) -> None:
    """As the refusal that it would have been, once per sticky key; whoever answered has its answer."""
    for user in ("u1", "u1", "u2"):
        call = a_call(user=user)
        call = replace(call, fell_back_from=VersionId("toy@ba9876543210"))
        house.arms.ended(call, OK)
    dead, answered = sorted(house.second().arms, key=lambda arm: arm.good)
    assert (dead.version, dead.worker, dead.good, dead.bad) == ("toy@ba9876543210", "", 0, 2)
    assert (answered.version, answered.good, answered.bad) == (calls.VERSION.id, 2, 0)


def test_one_callers_retries_are_one_event(house: House) -> None:
    """Ends count once per sticky key in ten seconds; a good end hides no bad one."""
    broken = Answer(outcome=Outcome.NO_CAPACITY, usage=UNKNOWN)
    for _ in range(50):
        house.arms.ended(a_call(user="u1"), OK)
        house.arms.ended(a_call(user="u1"), broken)
    house.arms.ended(a_call(user="u2"), broken)
    arm = house.arm()
    assert (arm.good, arm.bad) == (1, 2)
    house.clock.advance(10.0)
    house.arms.ended(a_call(user="u1"), broken)
    assert house.arm().bad == 1


def test_one_tenants_flood_is_one_sample_of_a_second(house: House) -> None:
    """Times, prices and answers are those of one request per tenant; all its tokens are told."""
    for number in range(100):
        house.arms.ended(a_call(user=f"u{number}"), OK)
    house.arms.ended(a_call("other"), OK)
    arm = house.arm()
    assert arm.answers == sum(many for one in arm.ttft for _, many in one.counts) == 2
    assert arm.prompt_tokens == 10_100


@pytest.mark.parametrize(
    "outcome", [Outcome.BAD_REQUEST, Outcome.CANCELLED, Outcome.OVER_LIMIT, Outcome.SLOW_READER, Outcome.FORBIDDEN]
)
def test_what_callers_are_at_fault_for_is_neither_good_nor_bad(house: House, outcome: Outcome) -> None:
    """Nobody makes evidence by leaving, asking too much or sending nonsense."""
    house.arms.ended(a_call(), Answer(outcome=outcome, usage=UNKNOWN))
    arm = house.arm()
    assert (arm.good, arm.bad, arm.refused, arm.answers) == (0, 0, 0, 0)


def test_a_deadline_of_the_callers_own_is_no_bad_end(house: House) -> None:
    """As promises count it: who leaves too little time spends nobody's budget."""
    call = a_call()
    call = replace(call, own_deadline=True, pace=Pace(first_s=5000.0))
    house.arms.ended(call, Answer(outcome=Outcome.DEADLINE, usage=UNKNOWN))
    assert house.arm().bad == 0
    house.arms.ended(a_call(), Answer(outcome=Outcome.DEADLINE, usage=UNKNOWN))
    assert house.arm().bad == 1


def test_nobody_to_answer_is_a_bad_end_of_the_version(house: House) -> None:
    """A candidate without a ready worker refuses what its incumbent would take."""
    call = a_call()
    call.attempts.worker = None
    house.arms.ended(call, Answer.refused(Overloaded("full"), UNKNOWN))
    arm = house.arm()
    assert (arm.worker, arm.bad) == ("", 1)


@pytest.mark.parametrize(("longest", "refused"), [(2048, 0), (4096, 1)])
def test_a_long_prompt_counts_only_where_the_other_version_takes_it(
    clock: ManualClock, longest: int, refused: int
) -> None:
    """Who sends what no version takes says nothing about one of them, however often."""
    house = House(clock, longest)
    for _ in range(3):
        call = a_call()
        call.attempts.worker = None
        house.arms.ended(call, Answer.refused(ContextTooLong("too long"), UNKNOWN))
    house.arms.ended(a_call("other"), OK)
    assert sum(arm.refused for arm in house.second().arms) == refused


@pytest.mark.parametrize(
    ("body", "finish", "tokens", "empty", "cut"),
    [
        ({}, FinishReason.LENGTH, 50, 0, 1),
        ({"max_tokens": 50}, FinishReason.LENGTH, 50, 0, 0),
        ({"max_completion_tokens": 50}, FinishReason.LENGTH, 50, 0, 0),
        ({}, FinishReason.STOP, 1, 1, 0),
        ({}, FinishReason.STOP, 2, 0, 0),
    ],
)
def test_empty_and_cut_answers_are_told(
    house: House, body: dict[str, object], finish: FinishReason, tokens: int, empty: int, cut: int
) -> None:
    """An answer that its caller bounded itself is not cut by the version."""
    usage = Usage(prompt_tokens=9, output_tokens=tokens)
    house.arms.ended(a_call(body=body), Answer(outcome=Outcome.OK, usage=usage, finish=finish))
    arm = house.arm()
    assert (arm.answers, arm.empty, arm.cut) == (1, empty, cut)


def test_a_second_is_bounded_whatever_comes(house: House) -> None:
    """Thousands of tenants with all kinds of prompts and times fill so many strata and names, and the rest is told."""
    for number in range(3000):
        call = a_call(f"t{number}")
        call.timings.put(Stage.PREFILL, 0.005 * 1.1 ** (number % 109))
        usage = Usage(prompt_tokens=1 << (number % 20), output_tokens=2)
        house.arms.ended(call, Answer(outcome=Outcome.OK, usage=usage, itl_s=(0.01,)))
    second = house.second()
    (arm,) = second.arms
    assert len(arm.exposed) == MOST_EXPOSED
    counted = sum(many for one in arm.ttft for _, many in one.counts)
    assert counted < 3000
    assert second.left_out >= 3000 - counted


def a_copy(tenant: str = "acme", *, is_evidence: bool = True, paid: int | None = None) -> Admitted:
    found = a_call("_shadow")
    note = Copy(of=RequestId("r"), alias=Alias("toy"), tenant=TenantId(tenant), sticky=tenant, paid=paid)
    found = replace(found, copy=replace(note, is_evidence=is_evidence))
    return replace(found, request=replace(found.request, model=calls.VERSION.id))


def test_a_copy_counts_as_its_candidates_answer_and_touches_nobody(house: House) -> None:
    """Times, price and end under its caller's own tenant and key, once as theirs; no tokens, and nobody exposed."""
    for _ in range(3):
        house.arms.ended(a_copy(), OK)
    house.arms.ended(a_copy("other"), OK)
    arm = house.arm()
    assert (arm.alias, arm.version, arm.worker) == ("toy", calls.VERSION.id, "w1")
    assert arm.ttft == ((stratum(64, 3), ((bucket(0.25), 2),)),)
    assert (arm.good, arm.bad, arm.answers, arm.prompt_tokens, arm.output_tokens, arm.exposed) == (2, 0, 2, 0, 0, ())


PRICE = Price(prompt_per_mtok=MicroUsd(40), cached_per_mtok=MicroUsd(10), output_per_mtok=MicroUsd(120))
WHOLE = 100 * 40 + 5 * 120
"""The answer's price as if none of its 36 cached tokens had been cached."""


@pytest.mark.parametrize(
    ("paid", "step"),
    [(WHOLE, 2), (WHOLE / 1.03, 3), (WHOLE * 1.03, 1), (WHOLE / 1.3, 4), (WHOLE * 1.3, 0), (0, 4), (None, None)],
    ids=["equal", "3 % dearer", "3 % cheaper", "much dearer", "much cheaper", "was free", "nobody knows"],
)
def test_a_copys_price_is_held_against_its_originals(house: House, paid: float | None, step: int | None) -> None:
    """As if nothing were cached: copies have a cold cache, which is no dearer version."""
    call = a_copy(paid=None if paid is None else round(paid))
    call = replace(call, version=replace(calls.VERSION, price=PRICE))
    house.arms.ended(call, OK)
    pairs = () if step is None else ((step, 1),)
    assert ((arm := house.arm()).paired, arm.price, arm.priced) == (pairs, (), (("acme", (), pairs),) * len(pairs))


def test_callers_prices_are_as_if_nothing_were_cached(house: House) -> None:
    """Who was sent where decides what a cache has, so it says nothing of a version."""
    for cached in (0, 96):
        call = a_call(f"tenant-{cached}")
        call = replace(call, version=replace(calls.VERSION, price=PRICE))
        house.arms.ended(call, replace(OK, usage=replace(OK.usage, cached_tokens=cached)))
    assert (arm := house.arm()).price == ((Stratum(0, 0), ((price_bucket(WHOLE), 2),)),)
    assert {(one.tenant, one.price[0].counts[0][1]) for one in arm.priced} == {("tenant-0", 1), ("tenant-96", 1)}


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (Outcome.ENGINE_ERROR, (0, 1, 0)),
        (Outcome.BROKEN_STREAM, (0, 1, 0)),
        (Outcome.BAD_REQUEST, (0, 0, 1)),
        (Outcome.NO_CAPACITY, (0, 0, 0)),
        (Outcome.EVICTED, (0, 0, 0)),
        (Outcome.DEADLINE, (0, 0, 0)),
        (Outcome.CANCELLED, (0, 0, 0)),
    ],
)
def test_what_a_copy_meets_was_answered_elsewhere(
    house: House, outcome: Outcome, counted: tuple[int, int, int]
) -> None:
    """So an engine's failure or refusal is the candidate's own; what was shed says nothing, and once is once."""
    for _ in range(2):
        house.arms.ended(a_copy(), Answer(outcome=outcome, usage=UNKNOWN))
    arm = house.arm()
    assert (arm.good, arm.bad, arm.refused) == counted


def test_scores_count_by_percent_and_as_nothing_else(house: House) -> None:
    """What was asked for them is no answer."""
    house.arms.ended(a_copy(is_evidence=False), OK)
    assert house.arms.take() is None
    for ratio in (0.0, 0.251, 0.249, 1.0):
        house.arms.differed(Alias("toy"), calls.VERSION.id, ratio)
    assert house.arm().differ == ((0, 1), (25, 2), (100, 1))


def test_a_tenant_has_one_answer_a_second_whichever_worker_it_comes_from(house: House) -> None:
    """Sessions and workers multiply nobody's voice."""
    for number in range(3):
        call = a_call(user=f"u{number}")
        call.attempts.worker = replace(WORKER, id=WorkerId(f"w{number}"))
        house.arms.ended(call, OK)
    assert sum(arm.answers for arm in house.second().arms) == 1
    house.arms.ended(a_call(), OK)
    assert house.arm().answers == 1


@pytest.mark.parametrize(
    ("body", "finish", "empty"),
    [
        ({}, FinishReason.STOP, 1),
        ({"max_tokens": 1}, FinishReason.LENGTH, 0),
        ({"max_tokens": 1}, FinishReason.STOP, 1),
        ({"stop_token_ids": [7]}, FinishReason.STOP, 0),
    ],
)
def test_who_ends_an_answer_itself_makes_none_empty(
    house: House, body: dict[str, object], finish: FinishReason, empty: int
) -> None:
    """One tenant asked for answers of one token, and a good candidate was aborted for it."""
    one = Answer(outcome=Outcome.OK, usage=Usage(prompt_tokens=9, output_tokens=1), finish=finish)
    house.arms.ended(a_call(body=body), one)
    assert (house.arm().empty) == empty


@pytest.mark.parametrize(
    "body",
    [
        {"logit_bias": {"2": 100}, "stop": []},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi!"}]},
    ],
)
@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH])
def test_who_steers_how_an_answer_ends_is_no_evidence_of_its_worth(
    house: House, body: dict[str, object], finish: FinishReason
) -> None:
    """Neither empty nor cut, and no price; times are times."""
    house.arms.ended(a_call(body=body), replace(OK, usage=Usage(prompt_tokens=9, output_tokens=1), finish=finish))
    arm = house.arm()
    assert (arm.answers, arm.empty, arm.cut, arm.price, arm.good) == (0, 0, 0, (), 1)


def test_a_callers_bound_is_no_price(house: House) -> None:
    """A tenant's longer bounds at the candidate made it dear; what ends within its bound is worth what it is."""
    house.arms.ended(a_call(body={"max_tokens": 900}), OK)
    assert [(arm.answers, arm.price) for arm in house.second().arms] == [(1, ())]


def test_whose_spoilt_answers_were_is_told(house: House) -> None:
    """A caller's and a copy's under its caller's own name."""
    empty = replace(OK, usage=Usage(prompt_tokens=9, output_tokens=1), finish=FinishReason.STOP)
    house.arms.ended(a_call("one"), empty)
    house.arms.ended(a_copy("two"), replace(OK, finish=FinishReason.LENGTH))
    house.arms.ended(a_call("four"), replace(OK, finish=FinishReason.STOP, is_json=lambda: False))
    house.arms.ended(a_copy("five"), Answer(outcome=Outcome.BAD_REQUEST, usage=UNKNOWN))
    whose = {one.tenant: (one.what, one.many) for one in house.arm().worse}
    assert whose == {"one": ("empty", 1), "two": ("cut", 1), "four": ("json_broken", 1), "five": ("refused", 1)}


@pytest.mark.parametrize(
    ("is_json", "finish", "expected"),
    [
        (True, FinishReason.STOP, (1, 0)),
        (False, FinishReason.STOP, (1, 1)),
        (False, FinishReason.LENGTH, (0, 0)),
        (None, FinishReason.STOP, (0, 0)),
    ],
)
def test_json_that_was_asked_for_is_told(
    house: House, *, is_json: bool | None, finish: FinishReason, expected: tuple[int, int]
) -> None:
    """What was cut is counted as cut; what nobody asked for, or nobody knows, not at all."""
    call = a_call()
    assert house.arms.judges(call)
    house.arms.ended(call, replace(OK, finish=finish, is_json=lambda: is_json))
    arm = house.arm()
    assert (arm.json_asked, arm.json_broken) == expected


def test_nobody_judges_the_answers_of_one_version_alone(house: House) -> None:
    """Nor ballast: nobody reads them."""
    note = Copy(of=RequestId("r"), alias=Alias("toy"), tenant=TenantId("acme"), sticky="s", is_evidence=False)
    copy = a_call()
    copy = replace(copy, copy=note)
    assert not house.arms.judges(copy)
    copy = replace(copy, copy=replace(note, is_evidence=True))
    assert house.arms.judges(copy)
    assert not house.arms.judges(a_call(model="other"))


@pytest.mark.parametrize(("company", "beside"), [(None, 3), (Load(running=5), 4), (Load(running=1), 0), (Load(), 0)])
def test_company_is_the_workers_own_word_where_it_has_told(house: House, company: Load | None, beside: int) -> None:
    """The table's load is old: of requests that come in lots it says that each was alone."""
    call = a_call()
    call.attempts.report = Report(load=company)
    house.arms.ended(call, OK)
    assert [one.stratum for one in house.arm().ttft] == [stratum(64, beside)]
