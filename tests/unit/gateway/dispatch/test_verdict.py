import errno
import socket

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import AnswerUnformed, Asleep, EngineError, EngineRefused, PenstockError, WorkerLost
from penstock.domain.serving.engine import GRAMMAR_ENDED
from penstock.gateway.answers import engine_words
from penstock.gateway.dispatch import verdict
from penstock.gateway.dispatch.records import FailureEvidence


@given(st.integers(100, 599), st.binary(max_size=20), st.binary(max_size=200))
def test_every_answer_has_a_verdict(status: int, refused: bytes, body: bytes) -> None:
    """Whatever a worker says, there is an error of ours for it."""
    judged = verdict.of_answer(status, refused, body)
    assert isinstance(judged.error, PenstockError)
    assert judged.reason


@pytest.mark.parametrize(("refused", "code"), [(b"overloaded", "overloaded"), (b"late", "deadline_unreachable")])
def test_a_refusal_for_the_tenants_own_queue_says_so(refused: bytes, code: str) -> None:
    """The gate's reason reaches the caller; words that are not ours don't."""
    for said, reason in (("tenant_queue", "tenant_queue"), ("a secret", None)):
        body = b'{"error":{"retry_after_s":2.5,"reason":"%b"}}' % said.encode()
        error = verdict.of_answer(503, refused, body).error
        assert (error.code, error.reason, error.retry_after_s) == (code, reason, 2.5)


def test_a_refusal_for_an_adapters_load_says_so() -> None:
    """The caller hears that its adapter is loaded and when, not that workers are full."""
    error = verdict.of_answer(503, b"late", b'{"error":{"retry_after_s":14.2,"reason":"adapter_loading"}}').error
    assert (error.code, error.reason, error.retry_after_s) == ("deadline_unreachable", "adapter_loading", 14.2)
    assert error.message == "its adapter is being loaded, 14 s more, and the deadline is before that"


def test_a_refused_adapter_is_told_with_what_is_left_of_it() -> None:
    """As long as its worker says, without the worker's words: they may quote golden prompts."""
    judged = verdict.of_answer(503, b"adapter", b'{"error":{"message":"golden prompt","retry_after_s":47.5}}')
    assert (judged.error.code, judged.error.retry_after_s, judged.error.message) == (
        "no_capacity",
        47.5,
        verdict.REFUSED,
    )


@given(st.binary(max_size=200))
def test_every_first_event_has_a_verdict(data: bytes) -> None:
    """Whatever an error event holds, there is an error of ours for it."""
    assert isinstance(verdict.of_event(data).error, PenstockError)


DEAD = (
    b'{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","code":500}}'
)


def test_a_dead_core_is_no_fault_of_the_request() -> None:
    """Whoever asks an engine whose core was killed hears of a lost worker, and may come back; the body has no fault."""
    for judged in (verdict.of_answer(500, b"", DEAD), verdict.of_event(b"event: error\ndata: " + DEAD + b"\n\n")):
        assert isinstance(judged.error, WorkerLost)
        assert judged.retry
    quoted = b'{"error":{"message":"no tool \\"message\\":\\"EngineCore encountered an issue","code":500}}'
    assert isinstance(verdict.of_answer(500, b"", quoted).error, EngineError)


def test_a_worker_that_sleeps_is_no_worker_that_is_down() -> None:
    """Another one is tried, and nothing is held against who fell asleep; one that drains is gone."""
    judged, gone = (verdict.of_answer(503, refused, b"{}") for refused in (b"sleeping", b"draining"))
    assert isinstance(judged.error, Asleep)
    assert (judged.retry, judged.evidence, gone.evidence) == (True, FailureEvidence.NONE, FailureEvidence.CLOSED)


def test_a_failed_handler_is_told_apart() -> None:
    """To whoever explains the request, that is: for the caller and for blame it is a failure of the engine."""
    judged = verdict.of_answer(500, b"", b'{"error":{"message":"x","reason":"handler"}}')
    assert judged.reason == "handler_error"
    other = verdict.of_answer(500, b"", b'{"error":{"message":"x","reason":"a secret"}}')
    assert other.reason == "engine_error"
    assert (judged.error.message, judged.retry, judged.evidence) == (other.error.message, other.retry, other.evidence)


def test_engine_message_is_one_bounded_printable_line() -> None:
    """An engine's message can't smuggle control characters or megabytes."""
    body = b'{"error":{"message":"bad\\u0000\\n\\u001b[31m value ' + b"x" * 10_000 + b'","param":"top_k.te\\nmp"}}'
    error = verdict.of_answer(400, b"", body).error
    assert isinstance(error, EngineRefused)
    assert error.message.startswith("bad [31m value xxx")
    assert len(error.message) <= engine_words.MAX_MESSAGE_CHARS
    assert error.param == "top_k"


@pytest.mark.parametrize(
    ("error", "evidence"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), FailureEvidence.CLOSED),
        (ConnectionResetError(errno.ECONNRESET, "reset"), FailureEvidence.CLOSED),
        (OSError(errno.EHOSTUNREACH, "no route"), FailureEvidence.CLOSED),
        (TimeoutError(), FailureEvidence.UNREACHED),
        (TimeoutError(errno.ETIMEDOUT, "timed out"), FailureEvidence.UNREACHED),
        (socket.gaierror(socket.EAI_AGAIN, "no name server"), FailureEvidence.UNREACHED),
        (OSError(errno.EMFILE, "too many open files"), FailureEvidence.NONE),
        (OSError(errno.EADDRNOTAVAIL, "no port left"), FailureEvidence.NONE),
    ],
)
def test_what_a_connection_that_was_not_made_says(error: OSError, evidence: FailureEvidence) -> None:
    """The kernel's refusal proves, silence is a suspicion, and want on this machine says nothing of the worker."""
    judged = verdict.no_connection(error)
    assert (judged.evidence, judged.retry) == (evidence, True)


def test_a_grammar_that_ends_an_answer_is_the_callers() -> None:
    """Also after tokens were made; any other refusal then is the engine's fault."""
    for message, kind in ((GRAMMAR_ENDED, EngineRefused), ("no call of the tool", AnswerUnformed)):
        body = msgspec.json.encode({"error": {"message": message, "code": 400}})
        assert type(verdict.of_answer(400, b"", body, has_run=True).error) is kind
