"""Interventions of the safety stage: counted by rule, and recorded up to a number of each request, for tenants that
keep it with the sealed text.
"""

from collections.abc import Callable, Coroutine, Mapping
from enum import StrEnum

from penstock.domain.errors import StoreUnavailable
from penstock.domain.jobs.deletion import users
from penstock.domain.serving.request import Sealed
from penstock.filters import evidence
from penstock.filters.evidence import MatchText, SealedText
from penstock.filters.intervention import MOST, Intervention
from penstock.filters.pack import Action, AtBound, Where
from penstock.gateway.calls.call import Admitted
from penstock.gateway.safety.confirming import Confirmation
from penstock.gateway.safety.judging import Held, Match
from penstock.sealing.keys import Keys
from penstock.sealing.segments import Unreadable
from penstock.telemetry import names
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics, begin_at_zero
from penstock.telemetry.tenants import OTHER

MOST_RULES = 100
"""Rules with series of their own; a pack of phrases has one rule for many."""
MOST_USER_CHARACTERS = 256
"""Of a name that is kept with a text: Anthropic's bound of ``user_id``; OpenAI's is 64."""
_NAMING = ("user", "safety_identifier", "metadata")


class TextDropped(StrEnum):
    FULL = "full"
    """The tenant has as many as are kept."""
    NO_KEY = "no_key"


def dropping(metrics: Metrics) -> Callable[[TextDropped, int], None]:
    counted = metrics.counter(names.MATCH_TEXTS_DROPPED)
    begin_at_zero(counted, TextDropped)
    return lambda why, number: counted.labels(why).inc(number)


class KeptTexts:
    """Seals texts of matches beside their requests; if no key can be had, a text is dropped."""

    def __init__(
        self,
        keep: Callable[[SealedText], object],
        spawn: Callable[[Coroutine[None, None, None]], object],
        drop: Callable[[TextDropped, int], None],
    ) -> None:
        self._keep, self._spawn, self._drop = keep, spawn, drop
        self._keys: Keys | None = None

    def open(self, keys: Keys) -> None:
        """Stores, and keys with them, are opened after the pipeline is made: until then no text is kept."""
        self._keys = keys

    def take(self, of: Intervention, text: MatchText, keep_s: float) -> None:
        if self._keys is not None:
            self._spawn(self._seal(self._keys, of, text, keep_s))

    async def _seal(self, keys: Keys, of: Intervention, text: MatchText, keep_s: float) -> None:
        try:
            key = await keys.newest(of.tenant)
        except (StoreUnavailable, Unreadable) as error:
            logger().warning(
                "match_text_not_kept", tenant=of.tenant, request_id=of.request, error_type=type(error).__name__
            )
            self._drop(TextDropped.NO_KEY, 1)
            return
        self._keep(evidence.sealed(of, text, key, keep_s))


class Interventions:
    def __init__(
        self,
        metrics: Metrics,
        keep: Callable[[Intervention], object],
        now: Callable[[], float],
        texts: KeptTexts,
    ) -> None:
        self._keep, self._now, self._texts = keep, now, texts
        self._interventions = metrics.counter(names.INTERVENTIONS)
        begin_at_zero(self._interventions, (OTHER,), Where, Action)
        self._seconds, self._events = metrics.histogram(names.HOLD_SECONDS), metrics.histogram(names.HELD_EVENTS)
        self._bounds = metrics.counter(names.HOLD_BOUNDS_MET)
        begin_at_zero(self._bounds, AtBound)
        self._verdicts = metrics.counter(names.JUDGE_VERDICTS)
        begin_at_zero(self._verdicts, Confirmation)
        self._judge_seconds = metrics.histogram(names.JUDGE_SECONDS)
        self._rules: set[str] = set()

    def record(self, call: Admitted, match: Match) -> None:
        rule = f"{match.applied.pack.partition('@')[0]}/{match.applied.rule.name}"
        if len(self._rules) < MOST_RULES:
            self._rules.add(rule)
        self._interventions.labels(rule if rule in self._rules else OTHER, match.stage, match.action).inc()
        if match.number < MOST:
            made = _intervention(call, match, self._now())
            self._keep(made)
            if match.text:
                text = MatchText(match.text, _users(call.request.body))
                self._texts.take(made, text, call.principal.plan.matches_kept_s)

    def judged(self, verdict: Confirmation, seconds: float) -> None:
        self._verdicts.labels(verdict).inc()
        self._judge_seconds.observe(seconds)

    def held(self, held: Held) -> None:
        self._seconds.observe(held.seconds)
        self._events.observe(held.events)
        if held.bound is not None:
            self._bounds.labels(held.bound).inc()


def _users(body: Mapping[str, object]) -> tuple[str, ...] | None:
    given = [body.get(name) for name in _NAMING]
    named = users(*given)
    is_long = any(isinstance(one, Sealed) for one in given) or any(len(one) > MOST_USER_CHARACTERS for one in named)
    return None if is_long else tuple(named)


def _intervention(call: Admitted, match: Match, at: float) -> Intervention:
    return Intervention(
        request=call.request.id,
        number=match.number,
        tenant=call.principal.tenant,
        version=call.version.id,
        pack=match.applied.pack,
        digest=match.applied.digest,
        rule=match.applied.rule.name,
        stage=match.stage,
        action=match.action,
        wanted=match.applied.wanted,
        position=match.position,
        at=at,
    )
