"""The story of a request: each part of its life in a sentence, and what is unknown said to be so."""

import random
from dataclasses import replace

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd, Price, dollars
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.report import Adapted, Ahead, Batched, Met, Trigger, Waited
from penstock.domain.serving.request_record import Choice, Considered, Drawn, Refusal, RequestRecord, Ruled, Tried
from penstock.domain.serving.slo import Indicator
from penstock.domain.tenancy.ledger import Opening, close
from penstock.domain.tenancy.tenant import Priority
from penstock.domain.tokens import UNKNOWN, Usage
from penstock.explain.judging import cost, judged
from penstock.explain.story import shown, tell, timeline
from penstock.gateway.routing.selection import best

PLAIN = RequestRecord("req-1", "acme", "k", 0.0, "/v1/chat/completions", "ok", 1.5, version="toy@1", stream=True)
BARE = Tried("w1", 0.01)
OPENING = Opening(
    request=RequestId("req-1"),
    tenant=TenantId("acme"),
    key=KeyId("k"),
    version=VersionId("toy@1"),
    digest="1",
    api="/v1/chat/completions",
    priority=Priority.INTERACTIVE,
    prompt_tokens=900,
    price=Price(prompt_per_mtok=MicroUsd(1), cached_per_mtok=MicroUsd(1), output_per_mtok=MicroUsd(1)),
    opened_at=0.0,
)


def story(**changes: object) -> str:
    return "\n".join(tell(PLAIN._replace(**changes)))  # type: ignore[arg-type]


def test_a_slow_request_is_told_with_its_longest_stages_and_its_wait() -> None:
    """Where the time went, how long the wait was to be and was, and who went before it by standing."""
    ahead = (Ahead(standing="interactive", own=1, others=4),)
    waited = Waited(predicted_s=0.5, waited_s=0.9, share=0.25, waiting=6, tenants=2, ahead=ahead)
    text = story(
        stages_s={"edge": 0.001, "queue": 0.9, "prefill": 0.1, "decode": 0.4},
        attempts=(BARE._replace(door=waited),),
    )
    assert "Its time went to queue 900 ms, decode 400 ms and prefill 100 ms." in text
    assert "At the door of w1 it was to wait 500 ms and waited 900 ms: 6 requests waited there" in text
    assert "2 other tenants were about; its tenant's share of the engine was 25%." in text
    assert "Meanwhile went before it: 5 interactive (1 its tenant's own)." in text


def test_a_request_that_was_held_for_a_wake_is_told_so() -> None:
    """What it waited for was neither a queue nor an engine at work."""
    said = "No worker of its version served when it came: it was held for 2.30 s, until one did."
    assert said in story(stages_s={"wake": 2.3, "decode": 0.4})
    assert "slept" not in story(stages_s={"decode": 0.4})


def test_a_request_that_a_fallback_had_is_told_so() -> None:
    """Whose share it was, and why that one did not answer; of others nothing is said."""
    said = "It fell to toy@2, which could take no requests here: its alias's fallback had it."
    assert said in story(fell_back_from="toy@2")
    assert "fallback" not in story()


def test_the_rule_that_decided_is_told() -> None:
    """Where it led, and why those before it did not fit; of other requests nothing is said of rules."""
    passed = (("short", "the prompt is longer than it takes"), ("json", "it is for structured answers"))
    said = "Of the rules of auto, rest led it to big, after short (the prompt is longer than it takes) and json"
    assert said in story(ruled=Ruled("auto", "rest", "big", passed))
    assert "Of the rules of auto, short led it to small.\n" in story(ruled=Ruled("auto", "short", "small"))
    assert "rules" not in story(ruled=Ruled("auto", "", "auto", passed))
    assert "rules" not in story()


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Considered("w2", 0.5, 5_000.0, 0, 0.0, 0.0), "had 4,000 tokens of work more before it"),
        (Considered("w2", 0.5, 1_000.0, 0, 0.9, 0.0), "had 90% of its KV blocks in use against 10%"),
        (Considered("w2", 0.7, 1_000.0, 0, 0.1, 0.0), "was as good, and chance decided"),
    ],
)
def test_why_the_others_lost_is_told(other: Considered, why: str) -> None:
    """Each worker that was compared and not chosen has its score and its reason."""
    chosen = Considered("w1", 0.7, 1_000.0, 0, 0.1, 0.0)
    text = story(choices=(Choice("w1", 3, 1, 2, (chosen, other)),), drawn=())
    assert "w1 (score 0.700) was chosen among 2, of 3 workers that serve, 1 of them passed over: w2 (score " in text
    assert f"{other.score:.3f}) {why}." in text


@pytest.mark.parametrize("behind", [0.0, 0.009, 0.011, 0.1])
def test_chance_is_the_reason_exactly_if_the_picker_asked_it(behind: float) -> None:
    """The story and the picker agree on the scores that are equal."""
    scores = (0.7, 0.7 - behind)
    picked = {best(scores, random.Random(seed)) for seed in range(30)}
    chosen, other = (Considered(f"w{number}", score, 0.0, 0, 0.0, 0.0) for number, score in enumerate(scores, start=1))
    text = story(choices=(Choice("w1", 2, 0, 2, (chosen, other)),))
    assert ("was as good, and chance decided" in text) == (picked == {0, 1})


def test_a_longer_prefix_is_a_reason() -> None:
    """Who held less of the prompt is told by how much."""
    chosen, other = Considered("w1", 0.9, 0.0, 512, 0.0, 0.0), Considered("w2", 0.6, 0.0, 0, 0.0, 0.0)
    assert "w2 (score 0.600) held 512 tokens of the prompt less." in story(
        choices=(Choice("w1", 2, 0, 2, (chosen, other)),)
    )


def test_a_refusal_is_told_with_what_refused() -> None:
    """The limit, what it had left and the wait are told; a refused request cost nothing and judges nobody."""
    text = story(
        outcome="over_limit",
        refusal=Refusal("rate_limit_exceeded", "tenant_requests", "the tenant's limit of 60 is reached", 3.0),
        drawn=(Drawn("tenant:acme:toy@1:rpm", 1, 0, 60),),
    )
    assert "was refused as over_limit after 1.50 s: rate_limit_exceeded: the tenant's limit of 60 is reached." in text
    assert "It was told to come back in 3.00 s." in text
    assert "Asked for 1 of 60 requests a minute (tenant:acme), 0 left." in text
    assert "It cost nothing." in text
    assert "No promise of the platform applies to it." in text


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (0.0042, "4.2 ms"),
        (90.0, "90.00 s"),
        (150.4, "2 min 30 s"),
        (3_599.0, "59 min 59 s"),
        (3_599.9, "1 h"),
        (86_317.65, "23 h 59 min"),
        (86_399.0, "1 d"),
        (93_600.0, "1 d 2 h"),
    ],
)
def test_long_times_are_said_as_people_say_them(value: float, says: str) -> None:
    """A caller without budget was told to come back in 86317.65 s."""
    assert f"told to come back in {says}." in story(outcome="over_budget", refusal=Refusal("c", None, "", value))


def test_what_a_budget_was_exceeded_by_is_no_negative_price() -> None:
    """Running answers may take more than is left, by half a second's tokens: then nothing is left."""
    drawn = (Drawn("tenant:acme:spend:2026-11-23", 40, -21, 500_000), Drawn("key:k:toy@1:tpm", 9, -512, 1_000))
    text = story(drawn=drawn)
    assert "(tenant:acme), nothing left, and $0.000021 beyond it." in text
    assert "(key:k), nothing left, and 512 beyond it." in text
    assert dollars(-21) == "-$0.000021"


def test_money_and_tokens_are_told() -> None:
    """Tokens, the steps that were shared, and the price with what it is made of."""
    text = story(
        prompt_tokens=1_000,
        cached_tokens=100,
        output_tokens=50,
        exact=True,
        steps=50,
        beside=150,
        price=(2_000_000, 1_000_000, 4_000_000),
        attempts=(BARE,),
        drawn=(Drawn("org:default:spend:2026-11", 5_000, 995_000, 1_000_000),),
    )
    assert "It took 1,000 prompt tokens (100 of them cached) and 50 output tokens." in text
    assert "They came of 50 steps of the engine, shared with 2.0 other sequences on average." in text
    assert "It cost $0.0021, at $2.00 for a million prompt tokens, $1.00 from the cache and $4.00 for output." in text
    assert "Drawn: $0.005 of $1.00 for 2026-11 (org:default), $0.995 left." in text


def test_retries_and_continuations_are_told() -> None:
    """Each attempt that failed says why, and a stream that went on says when."""
    text = story(
        attempts=(Tried("w1", 0.01, "connect"), Tried("w2", 0.02, "overloaded"), Tried("w3", 0.03)), continued_s=(0.8,)
    )
    assert "Sent to w1 after 10 ms, which could not be reached." in text
    assert "Sent to w2 after 20 ms, which was full." in text
    assert "Then w3 took it, 30 ms after it had come." in text
    assert "another one went on with it 800 ms after it came." in text


def test_the_unknown_is_told_as_unknown() -> None:
    """Of a request whose worker told nothing, no figure is 0."""
    text = story(outcome="engine_error", attempts=(BARE,), refusal=None)
    for words in (
        "the reason was not recorded",
        "It never came to its limits: what they had left is unknown.",
        "How it fared at the door of w1 is unknown.",
        "How many tokens it took is unknown.",
    ):
        assert words in text
    assert "how many it shared the engine's steps is unknown" in story(
        attempts=(BARE,), prompt_tokens=1, output_tokens=1
    )


@pytest.mark.parametrize("usage", [UNKNOWN, Usage(), Usage(prompt_tokens=900, cached_tokens=16, output_tokens=7)])
def test_the_cost_is_what_the_ledgers_row_says(usage: Usage) -> None:
    """Of a request that failed in an engine too, explained and billed are the same, and what nobody counted is free."""
    price = Price(prompt_per_mtok=MicroUsd(2_000_000), cached_per_mtok=MicroUsd(1), output_per_mtok=MicroUsd(4_000_000))
    row = close(replace(OPENING, price=price), Outcome.ENGINE_ERROR, usage, gpu_s=0.0, now=2.0)
    known = usage.total_tokens > 0
    record = PLAIN._replace(
        outcome=Outcome.ENGINE_ERROR,
        attempts=(BARE,),
        price=(price.prompt_per_mtok, price.cached_per_mtok, price.output_per_mtok),
        prompt_tokens=usage.prompt_tokens if known else None,
        cached_tokens=usage.cached_tokens if known else None,
        output_tokens=usage.output_tokens if known else None,
    )
    assert cost(record) == shown(record)["cost_micro_usd"] == row.cost
    assert ("It cost nothing." in tell(record)) == (row.cost == 0)


PROMISED = PLAIN._replace(
    promised=(1.0, 0.1, 0.0), ttft_s=0.4, longest_gap_s=0.3, gaps=100, late_gaps=2, most_late_ratio=0.01, is_own=False
)


def test_promises_are_judged() -> None:
    """Within the promise is met, beyond it is missed, and a fault of the platform misses availability."""
    assert {one.indicator: one.is_good for one in judged(PROMISED)} == {
        "availability": True,
        "stream_completion": True,
        "ttft": True,
        "itl": False,
    }
    broken = judged(PROMISED._replace(outcome=Outcome.BROKEN_STREAM))
    assert [one.is_good for one in broken] == [False, False, True, False]
    assert judged(PROMISED._replace(outcome=Outcome.CANCELLED)) == ()
    assert judged(PROMISED._replace(outcome=Outcome.DEADLINE))
    for outcome in (Outcome.ENGINE_ERROR, Outcome.DEADLINE):
        for is_own in (True, None):
            assert judged(PROMISED._replace(outcome=outcome, is_own=is_own)) == ()
    whole = PROMISED._replace(stream=False, ttft_s=None, longest_gap_s=None, promised=(0.0, 0.0, 1.0))
    assert [(one.indicator, one.is_good) for one in judged(whole)] == [("availability", True), ("latency", False)]
    slow = whole._replace(seconds=whole.seconds + 30.0, stages_s={Stage.UPLOAD: 30.0})
    assert judged(slow) == judged(whole)
    words = "Promise itl within 100 ms: 2 of 100 gaps took longer, the longest 300 ms; at most 1 % may: MISSED."
    assert words in tell(PROMISED)


@pytest.mark.parametrize(("late", "is_good"), [(0, True), (1, True), (2, False), (None, None)])
def test_gaps_are_judged_as_the_objective_counts_them(late: int | None, is_good: bool | None) -> None:
    """One long gap of a hundred misses no promise that lets one be late; an old record does not say how many were."""
    found = {one.indicator: one.is_good for one in judged(PROMISED._replace(late_gaps=late))}
    assert found.get(Indicator.ITL) == is_good


def test_what_was_not_measured_is_named() -> None:
    """Time that no stage has stands at the end of the timeline, and the story says after what."""
    lost = PLAIN._replace(seconds=4.0, outcome=Outcome.ENGINE_ERROR, stages_s={Stage.ROUTE: 0.8})
    lost = lost._replace(attempts=(BARE._replace(failed="reset"),))
    assert "Not accounted: 3.20 s, after the worker was lost." in tell(lost)
    *_, (name, start_s, length_s) = timeline(lost)
    assert (name, start_s, round(length_s, 6)) == ("not accounted", 0.8, 3.2)
    left = PLAIN._replace(seconds=4.0, outcome=Outcome.CANCELLED, stages_s={Stage.ROUTE: 0.8}, attempts=(BARE,))
    assert "Not accounted: 3.20 s, until its caller left." in tell(left)
    assert "Not accounted" not in story(seconds=1.0, stages_s={Stage.DECODE: 0.9995})


@pytest.mark.parametrize("word", ["engine_error", "handler_error"])
@pytest.mark.parametrize("outcome", [Outcome.ENGINE_ERROR, Outcome.OK])
def test_a_worker_that_answered_that_it_failed_was_not_lost(outcome: Outcome, word: str) -> None:
    """A handler's error ended in a 502, and the words were that the worker was lost."""
    failed = PLAIN._replace(seconds=4.0, outcome=outcome, stages_s={Stage.ROUTE: 0.8})
    failed = failed._replace(attempts=(BARE._replace(failed=word),))
    assert "Not accounted: 3.20 s, at the worker that failed." in tell(failed)


def test_a_handler_that_failed_is_named() -> None:
    """Whoever wrote it looked for the fault in the engine."""
    failed = PLAIN._replace(outcome=Outcome.ENGINE_ERROR, attempts=(BARE._replace(failed="handler_error"),))
    assert "which answered that the handler of its model failed." in " ".join(tell(failed))


def test_sentences_end_once_and_agree_in_number() -> None:
    """What an error says with its own full stop gets no second one, and one tenant was about."""
    refusal = Refusal("engine_error", None, "the worker was lost before its answer was complete.")
    text = story(outcome="engine_error", attempts=(BARE,), refusal=refusal)
    assert "complete." in text
    assert ".." not in text
    waited = Waited(predicted_s=0.5, waited_s=0.9, share=None, waiting=1, tenants=1, ahead=())
    assert "1 other tenant was about" in story(attempts=(BARE._replace(door=waited),))


def test_a_replay_sends_to_the_request_that_was_answered() -> None:
    """The id of a repeated answer says which id to ask for."""
    assert story(replay_of="req-0", seconds=0.01).endswith(
        "It repeated the answer to req-0 under its idempotency key, and cost nothing: explain that one."
    )


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (
            Batched(size=12, trigger=Trigger.WAIT, waited_s=0.0035),
            "w1 computed it in a batch of 12, after a wait of 3.5 ms for it: the batch started because some",
        ),
        (
            Batched(size=1, trigger=Trigger.IDLE, waited_s=0.0),
            "w1 computed it alone, after a wait of 0 ms for it: the batch started because the device was fre",
        ),
    ],
)
def test_a_batched_request_is_told_with_its_batch(batch: Batched, says: str) -> None:
    """Size, wait and trigger, as its worker told them; of an older line, or of nothing, nothing is said."""
    assert says in story(attempts=(BARE._replace(batch=batch),))
    assert "batch" not in story(attempts=(BARE._replace(batch="12,size,1.0"),))
    assert "batch" not in story(attempts=(BARE,))


@pytest.mark.parametrize(
    ("met", "waited_s", "says"),
    [
        (Met.HIT, 0.0, "w1 held its adapter, with a slot for it: it waited for neither."),
        (
            Met.QUEUED,
            2.5,
            "w1 held its adapter, and others had all slots: it waited 2.50 s for one.",
        ),
        (
            Met.LOADED,
            1.5,
            "w1 had to load its adapter first: it waited 1.50 s until that was there and checked.",
        ),
    ],
)
def test_how_it_met_its_adapter_is_told(met: Met, waited_s: float, says: str) -> None:
    """As its gate told it; of a request without one, and of an older line, nothing is said."""
    assert says in story(attempts=(BARE._replace(adapter=Adapted(met=met, waited_s=waited_s)),))
    assert "adapter" not in story(attempts=(BARE._replace(adapter="hit,0.0"),))
    assert "adapter" not in story(attempts=(BARE,))


def test_each_trigger_has_its_words() -> None:
    """None is told by its name for programs."""
    for trigger in Trigger:
        assert "because" in story(attempts=(BARE._replace(batch=Batched(size=3, trigger=trigger, waited_s=0.001)),))


def test_a_held_first_token_stands_beside_the_engines() -> None:
    """With what filters added; the promise is judged by what the caller saw."""
    plain = PROMISED._replace(is_own=True, outcome="ok")
    held = plain._replace(visible_s=1.5)
    assert "Its first token came after 400 ms; filters let it leave after 1.50 s, 1.10 s later." in tell(held)
    for visible_s in (None, 0.4):
        assert "Its first token came after 400 ms." in tell(plain._replace(visible_s=visible_s))
    good = [{one.indicator: one.is_good for one in judged(record)}[Indicator.TTFT] for record in (held, plain)]
    assert good == [False, True]


def test_the_timeline_has_the_stages_one_after_the_other() -> None:
    """Stages stand in the order in which they came, each where the one before ended."""
    spans = timeline(PLAIN._replace(seconds=0.6, stages_s={Stage.QUEUE: 0.5, Stage.EDGE: 0.1}))
    assert spans == [("edge", 0.0, 0.1), ("queue", 0.1, 0.5)]


def test_json_has_everything_by_name() -> None:
    """Whoever reads it with a program finds names, the story and the judgement; unknown is null."""
    found = shown(PROMISED._replace(attempts=(BARE,), choices=(Choice("w1", 1, 0, 1),)))
    assert (found["object"], found["id"], found["drawn"], found["cost_micro_usd"]) == ("request", "req-1", None, 0)
    assert found["attempts"] == [
        {"worker": "w1", "sent_s": 0.01, "failed": "", "door": None, "batch": None, "adapter": None}
    ]
    assert found["choices"][0]["worker"] == "w1"
    assert found["says"] == tell(PROMISED._replace(attempts=(BARE,), choices=(Choice("w1", 1, 0, 1),)))


def test_a_refusal_by_a_store_is_told_with_its_words() -> None:
    """The outcome "internal" alone said nothing of the limits store that was away, or of the full disk."""
    error = StoreUnavailable("the caller's budget can't be checked now", retry_after_s=4.0)
    text = story(outcome="internal", refusal=Refusal.of(error))
    told = "was refused as internal after 1.50 s: store_unavailable: the caller's budget can't be checked now."
    assert told in text
