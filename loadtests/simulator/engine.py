"""A continuous-batching engine in virtual time: the cost of its steps, and each request's part of them.

A step costs what the step model says of its batch. Prompts are read in chunks (chunked prefill, as in vLLM and
Sarathi-Serve). Decodes go first, then prompts in order; beside other requests a prompt takes a bounded part of a step,
as in vLLM. Trade-off: scheduler, tokenizer and HTTP are part of the fixed seconds.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.domain.ids import RequestId
from penstock.domain.models.steps import StepBatch, StepModel, pairs_of
from penstock.domain.tenancy.standing import Standing
from penstock.worker.engines.standstill import Standstill
from penstock.worker.engines.stepping import EVERYBODY, Inside, Stepping, Turnout
from penstock.worker.gate.queueing.work import Work
from penstock.worker.gate.queueing.work import cost as cost_of
from penstock.worker.meter import REPORT_EVERY, Stops

IDLE_STEP_S = 0.001
"""Seconds until an engine whose requests all stand still looks again, as in vLLM."""

CHUNK_TOKENS = 512
"""The most tokens of a step where nothing else is said: as a version's settings."""


SMOLLM2_ONE_CORE = StepModel(
    fixed_s=0.0172, token_s=0.000671, context_s=3.62e-6, sequence_s=0.000094, attention_s=5.4e-7, rides=False
)
"""SmolLM2-135M, bfloat16, one thread, as ``penstock up`` starts it on two cores: least squares over 36 batches of real
vLLM 0.32 (1 to 64 sequences, contexts to 1,500, chunks to 512); 3.6 % median error, 4.4 % for a batch left out."""


SMOLLM2_TWO_CORES = StepModel(
    fixed_s=0.0172, token_s=0.00034, context_s=1.8e-6, sequence_s=0.00004, attention_s=2.7e-7, rides=False
)
"""The same on two otherwise idle cores: costs that grow with the batch are halved."""


LLAMA_8B_H100 = StepModel(fixed_s=0.0064, token_s=2.78e-5, context_s=6.5e-8, sequence_s=1e-5)
"""Llama-3.1-8B, bfloat16, one H100, from the datasheet: 6.5 ms a token alone (published: 6.48), 36,000 prompt tokens a
second. It is for simulations, not a promise.
"""


@dataclass(slots=True)
class Sequence:
    work: Work
    output_tokens: int
    prompt_left: int
    width: int
    number: int
    first_step: int = 0
    """The step that made the first token; 0 before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStep:
    """The result of a step: duration, first tokens, reports to the queue, finished requests."""

    seconds: float
    first: list[Sequence]
    told: list[Sequence]
    done: list[Sequence]


@dataclass(slots=True)
class _Group:
    """One tenant's sequences, a request's that may be stopped, or all; ``step`` counts the steps."""

    weight: float
    stops: Stops
    step: int = 0
    width: int = 0
    prompts: int = 0
    batch: int = 0
    context: int = 0
    events: list[tuple[int, int, Sequence]] = field(default_factory=list)

    def made(self, sequence: Sequence) -> int:
        return self.step - sequence.first_step + 1 if sequence.first_step else 0


@dataclass(slots=True)
class EngineModel:
    """With ``stepping``, that policy divides the steps among tenants. KV blocks and the order of preemption are not
    modelled: a preempted sequence resumes.
    """

    model: StepModel
    max_seqs: int = 10**9
    stepping: Stepping | None = None
    standstill: Standstill = field(default_factory=Standstill)
    chunk_tokens: int = CHUNK_TOKENS
    """The most tokens of a step."""
    _waiting: deque[Sequence] = field(default_factory=deque)
    _prefilling: dict[RequestId, Sequence] = field(default_factory=dict)
    _decoding: dict[RequestId, Sequence] = field(default_factory=dict)
    _groups: dict[str, _Group] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _width: int = 0
    _seconds: float = 0.0

    def enter(self, work: Work, output_tokens: int) -> None:
        sequence = Sequence(work, output_tokens, work.prompt_tokens, work.sequences, next(self._numbers))
        self._waiting.append(sequence)
        stops = Stops(is_awaited=work.standing is Standing.INTERACTIVE, until=work.stops_until)
        group = self._groups.setdefault(self._name(work), _Group(work.weight, stops))
        group.width += sequence.width
        group.prompts += 1

    def abort(self, request: RequestId) -> None:
        if request in self._decoding:
            self._end(self._decoding[request])
            return
        gone = self._prefilling.pop(request, None)
        if gone is not None:
            self._width -= gone.width
        else:
            gone = next((one for one in self._waiting if one.work.request == request), None)
            if gone is None:
                return
            self._waiting.remove(gone)
        group = self._group(gone)
        group.prompts -= 1
        self._leave(gone)

    @property
    def decoding(self) -> Iterable[Sequence]:
        """The sequences that the next step gives a further token, unless their tenant stands still."""
        return self._decoding.values()

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._prefilling or self._decoding)

    def made(self, sequence: Sequence) -> int:
        """Return the tokens that each of the request's sequences has after this step."""
        return self._group(sequence).made(sequence)

    def step(self) -> SimulatedStep:
        while self._waiting and self._width + self._waiting[0].width <= max(self.max_seqs, self._waiting[0].width):
            head = self._waiting.popleft()
            self._prefilling[head.work.request] = head
            self._width += head.width
        turnout = self._turnout()
        groups = {name: group for name, group in self._groups.items() if name not in turnout.still}
        for group in groups.values():
            group.step += 1
        batch, first = self._work(groups, turnout)
        told, done = self._due(groups.values())
        for sequence in first:
            self._begin(sequence)
        done += [sequence for sequence in first if sequence.output_tokens <= 1]
        for sequence in done:
            self._end(sequence)
        seconds = self.model.of(batch) if batch.decoding or batch.prompt else IDLE_STEP_S
        self._seconds += seconds
        return SimulatedStep(seconds=seconds, first=first, told=told, done=done)

    def _turnout(self) -> Turnout:
        if self.stepping is None:
            return EVERYBODY
        here = [Inside(name, one.weight, one.width, one.prompts) for name, one in self._groups.items()]
        turnout = self.stepping.next(here, self._seconds)
        stopped = self.standstill.next(((name, one.stops) for name, one in self._groups.items()), self._seconds)
        return replace(turnout, still=turnout.still | stopped)

    def _work(self, groups: Mapping[str, _Group], turnout: Turnout) -> tuple[StepBatch, list[Sequence]]:
        decoding, context = sum(one.batch for one in groups.values()), sum(one.context for one in groups.values())
        tokens, pairs, ready = 0, 0.0, list[Sequence]()
        room, most = self.chunk_tokens - decoding, int(self.chunk_tokens * turnout.prompt_part)
        read = dict.fromkeys(groups, 0)
        for sequence in self._prefilling.values():
            name = self._name(sequence.work)
            if name in turnout.still:
                continue
            chunk = min(sequence.prompt_left, room - tokens, most)
            if chunk <= 0:
                break
            before = sequence.work.prompt_tokens - sequence.prompt_left
            sequence.prompt_left -= chunk
            tokens += chunk
            read[name] += chunk
            pairs += pairs_of(chunk, before)
            if not sequence.prompt_left:
                ready.append(sequence)
        for name, group in groups.items():
            group.context += group.batch
            if self.stepping is not None:
                self.stepping.served(name, cost_of(read[name], group.batch), self._seconds)
        batch = StepBatch(decoding=decoding, prompt=tokens, context=context, pairs=pairs)
        return batch, ready

    def _due(self, groups: Iterable[_Group]) -> tuple[list[Sequence], list[Sequence]]:
        told, done = list[Sequence](), list[Sequence]()
        for group in groups:
            while group.events and group.events[0][0] <= group.step:
                _, _, sequence = heapq.heappop(group.events)
                if self._decoding.get(sequence.work.request) is not sequence:
                    continue
                if group.made(sequence) >= sequence.output_tokens:
                    done.append(sequence)
                else:
                    told.append(sequence)
                    _expect(group, sequence)
        return told, done

    def _begin(self, sequence: Sequence) -> None:
        del self._prefilling[sequence.work.request]
        group = self._group(sequence)
        sequence.first_step = group.step
        self._decoding[sequence.work.request] = sequence
        group.prompts -= 1
        group.batch += sequence.width
        group.context += sequence.width * (sequence.work.prompt_tokens + 1)
        _expect(group, sequence)

    def _end(self, sequence: Sequence) -> None:
        del self._decoding[sequence.work.request]
        group = self._group(sequence)
        group.batch -= sequence.width
        group.context -= sequence.width * (sequence.work.prompt_tokens + group.made(sequence))
        self._width -= sequence.width
        self._leave(sequence)

    def _leave(self, sequence: Sequence) -> None:
        group = self._group(sequence)
        group.width -= sequence.width
        if not group.width:
            del self._groups[self._name(sequence.work)]

    def _group(self, sequence: Sequence) -> _Group:
        return self._groups[self._name(sequence.work)]

    def _name(self, work: Work) -> str:
        if self.stepping is None:
            return ""
        return work.request if work.stops_until else work.tenant


def _expect(group: _Group, sequence: Sequence) -> None:
    left = sequence.output_tokens - group.made(sequence)
    heapq.heappush(group.events, (group.step + min(REPORT_EVERY, left), sequence.number, sequence))
