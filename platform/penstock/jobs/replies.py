"""The reply to which a job's answer is written, and the way in which a runner stops its request."""

from collections.abc import Callable
from typing import Protocol

from penstock.domain.jobs.job import Job
from penstock.gateway.calls.inside import BodyReply
from penstock.gateway.calls.relay import PassedReply, Reply


class AnswerReply(Reply, Protocol):
    @property
    def is_fenced(self) -> bool:
        """Tell whether this attempt was found to hold its job no longer."""
        ...

    @property
    def is_published(self) -> bool:
        """Tell whether the tenant can read the answer while it is made."""
        ...

    async def close(self) -> bytes:
        """Return the answer's body; empty if this attempt has none."""
        ...


class Answers(Protocol):
    """Makes the replies of one kind of jobs, one for each attempt."""

    async def begin(self, job: Job) -> AnswerReply: ...


class WholeReply(BodyReply):
    is_fenced = is_published = False

    async def close(self) -> bytes:
        return self.body


class WholeAnswers:
    async def begin(self, job: Job) -> AnswerReply:
        del job
        return WholeReply()


def _nothing() -> None: ...


class Stoppable(PassedReply):
    """Passes an answer on to the reply behind it; ``stop`` ends the request, as a client's disconnect does."""

    def __init__(self, behind: Reply) -> None:
        super().__init__(behind)
        self._is_stopped = False
        self._on_gone: Callable[[], None] = _nothing

    @property
    def gone(self) -> bool:
        return self._is_stopped or super().gone

    def stop(self) -> None:
        self._is_stopped = True
        self._on_gone()

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        self._on_gone = on_gone
        super().watch(on_gone=on_gone, on_pause=on_pause, on_resume=on_resume)
