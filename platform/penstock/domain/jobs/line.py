"""A batch's line after its end: what a result file says about it."""

from typing import NamedTuple

from penstock.domain.ids import RequestId
from penstock.domain.jobs.ids import JobName, ObjectId
from penstock.domain.jobs.job import JobState, Reason

FIRST_ERROR = 400
"""The first HTTP status of an error."""


class EndedLine(NamedTuple):
    """``answer`` is the object with what the API answered, an error too; empty if none was stored."""

    number: int
    name: JobName
    state: JobState
    reason: Reason
    error: str
    status: int
    request: RequestId
    answer: ObjectId
    at: int
    size: int
    prompt_tokens: int
    output_tokens: int

    @property
    def was_stopped(self) -> bool:
        """Tell whether its batch ended the line, and not its own request."""
        return self.reason in (Reason.DEADLINE, Reason.CALLER, Reason.KEY_REVOKED)

    @property
    def is_answered(self) -> bool:
        return bool(self.answer) and self.status < FIRST_ERROR and not self.was_stopped
