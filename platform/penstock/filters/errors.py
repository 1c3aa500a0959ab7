"""What a filter ends: a prompt before any worker is asked, an answer while it runs."""

from penstock.domain.errors import BadRequest, Failed
from penstock.domain.outcome import Outcome


class PromptFiltered(BadRequest):
    """The prompt has text that a safety policy does not allow."""

    code = "content_filter"
    outcome = Outcome.FILTERED


class AnswerFiltered(Failed):
    """A safety policy ended the answer; what it had generated is billed."""

    code = "answer_filtered"
    outcome = Outcome.FILTERED
