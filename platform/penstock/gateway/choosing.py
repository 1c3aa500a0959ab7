"""Chooses the version and counts its prompt: resolve → preprocess; for an auto alias, rule by rule.

The first rule that fits decides. A prompt that was too long is counted again only for a different tokenizer or
template. If only the engine can count (images, stored conversations), a bound from bytes decides; without a bound that
fits, the last possible model is chosen.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.domain.errors import BadRequest, PenstockError, UnknownModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import NO_VERSION, Alias, VersionId
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.serving.request_record import Ruled
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Call, Chosen, Progress
from penstock.gateway.pipeline import Preprocessor, Resolver
from penstock.gateway.routing import auto as rules
from penstock.gateway.routing.asked import Asked, asked
from penstock.gateway.routing.auto import Misfit, Script

First = Callable[[VersionEntry], Awaitable[None]]

NONE = "_none"
"""The rule's label for requests that fit no rule; no rule's name begins like this."""
_COUNTED_ANEW = frozenset({"truncate_prompt_tokens", "padding"})
"""Fields with which a prompt's count also depends on the model's context."""


class _Found(NamedTuple):
    rule: Rule
    wish: InferenceRequest
    version: VersionEntry
    prepared: Prepared
    fell_back: list[VersionId]
    context: int
    """Tokens of the version's context that the caller may use."""

    @property
    def is_certain(self) -> bool:
        cost, prepared = self.wish.cost, self.prepared
        output = 1 if cost.names_no_output else max(1, cost.output_each)
        return prepared.is_counted or prepared.prompt_tokens + output <= self.context


@dataclass(slots=True)
class _Trial:
    progress: Progress
    asks: Asked
    first: First | None
    passed: list[tuple[str, Misfit]] = field(default_factory=list)
    last: BadRequest | None = None
    doubtful: _Found | None = None
    """The last target that may fit, if only its engine can tell."""
    _tokens: dict[Script, int] = field(default_factory=dict)
    _full: dict[Script, int] = field(default_factory=dict)

    @property
    def call(self) -> Call:
        return self.progress.call

    def context(self, version: VersionEntry) -> int:
        return self.call.principal.context(version.max_model_len)

    def known(self, rule: Rule, version: VersionEntry) -> Misfit | None:
        script = rules.script_of(version)
        if self.context(version) <= self._full.get(script, 0):
            return Misfit.CONTEXT
        return Misfit.PROMPT if rule.prompt_tokens and self._tokens.get(script, 0) > rule.prompt_tokens else None

    def counted(self, version: VersionEntry, prepared: Prepared) -> None:
        if prepared.is_counted and not _COUNTED_ANEW & self.call.request.body.keys():
            self._tokens[rules.script_of(version)] = prepared.prompt_tokens

    def refused(self, version: VersionEntry, error: BadRequest) -> Misfit:
        self.last, why = error, rules.of_error(error)
        if why is Misfit.CONTEXT and not _COUNTED_ANEW & self.call.request.body.keys():
            script = rules.script_of(version)
            self._full[script] = max(self.context(version), self._full.get(script, 0))
        return why


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    autos: Callable[[str, Principal], Auto | None]
    resolver: Resolver
    preprocessor: Preprocessor
    count: Callable[[Alias, str], None]

    async def choose(self, progress: Progress, first: First | None = None) -> Chosen:
        call = progress.call
        auto = self.autos(call.request.model, call.principal)
        if auto is None or not call.principal.may_use(auto.alias):
            return await self._named(progress, first)
        trial = _Trial(progress, asked(call.request, call.principal), first)
        for rule in auto.rules[rules.first_of(auto, call.request.kept_rule) :]:
            found = await self._tried(rule, trial)
            if isinstance(found, _Found) and found.is_certain:
                return self._take(auto, found, trial)
            if isinstance(found, _Found):
                trial.doubtful, found = found, Misfit.DOUBT
            if found is not None:
                trial.passed.append((rule.name, found))
        if trial.doubtful is not None:
            return self._take(auto, trial.doubtful, trial)
        progress.call = replace(call, ruled=self._ruled(auto, "", call.request, trial))
        raise rules.nothing_fits(auto.alias, trial.passed, trial.last)

    async def _named(self, progress: Progress, first: First | None) -> Chosen:
        call, others = progress.call, list[VersionId]()
        version = self.resolver.resolve(call.request, call.principal, others.append)
        fell_back_from = others[-1] if others else NO_VERSION
        try:
            if first is not None:
                await first(version)
            prepared = await self.preprocessor.prepare(call.request, version, call.principal)
        except PenstockError:
            progress.call = replace(call, version=version, fell_back_from=fell_back_from)
            raise
        return call.chosen(version, prepared, fell_back_from=fell_back_from)

    async def _tried(self, rule: Rule, trial: _Trial) -> _Found | Misfit | None:
        call, fell_back = trial.call, list[VersionId]()
        wish = replace(call.request, model=rule.to)
        version = self._able(rule, wish, trial, fell_back)
        if not isinstance(version, VersionEntry):
            return version
        if trial.first is not None:
            await trial.first(version)
            trial.first = None
        try:
            prepared = await self.preprocessor.prepare(wish, version, call.principal)
        except BadRequest as error:
            return trial.refused(version, error)
        trial.counted(version, prepared)
        if rule.prompt_tokens and prepared.prompt_tokens > rule.prompt_tokens:
            return Misfit.PROMPT
        return _Found(rule, wish, version, prepared, fell_back, trial.context(version))

    def _able(
        self, rule: Rule, wish: InferenceRequest, trial: _Trial, fell_back: list[VersionId]
    ) -> VersionEntry | Misfit | None:
        why = rules.misfit(rule, trial.asks)
        try:
            version = self.resolver.resolve(wish, trial.call.principal, fell_back.append)
        except UnknownModel:
            return None
        except BadRequest as error:
            return why or rules.of_error(error)
        return why or rules.unable(rule, version, trial.asks) or trial.known(rule, version) or version

    def _take(self, auto: Auto, found: _Found, trial: _Trial) -> Chosen:
        trial.passed = [one for one in trial.passed if one[0] != found.rule.name]
        return trial.call.chosen(
            found.version,
            found.prepared,
            request=found.wish,
            fell_back_from=found.fell_back[-1] if found.fell_back else NO_VERSION,
            ruled=self._ruled(auto, found.rule.name, found.wish, trial),
        )

    def _ruled(self, auto: Auto, rule: str, request: InferenceRequest, trial: _Trial) -> Ruled:
        self.count(auto.alias, rule or NONE)
        return Ruled(auto.alias, rule, request.model, tuple((name, str(why)) for name, why in trial.passed))
