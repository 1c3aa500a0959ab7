"""Response objects that no engine has written."""

from typing import get_args

import msgspec
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from penstock.domain.jobs.stored_response import ResponseId, ResponseStatus
from penstock.domain.serving.request import Sealed
from penstock.gateway.deferred import response_bodies

OWN = response_bodies.own_fields(ResponseId("resp_1"), 12.7, "resp_0", is_background=True)
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": True}
BEGUN = response_bodies.beginning("m@1", {"instructions": "Be brief", "tools": [TOOL], "input": "x"}, OWN)


def as_sdk(body: dict[str, object]) -> Response:
    return Response.model_validate(body)


def test_a_waiting_response_has_all_fields_of_the_sdk() -> None:
    """What the request asked for is repeated, the input is not."""
    shown = as_sdk(response_bodies.decoded(BEGUN))
    assert (shown.status, shown.background, shown.previous_response_id) == ("queued", True, "resp_0")
    assert (shown.instructions, shown.tools[0].type, shown.created_at) == ("Be brief", "function", 12)
    assert shown.output == []
    assert "input" not in response_bodies.decoded(BEGUN)


def test_large_fields_stay_json() -> None:
    """A field that was never decoded is repeated, too."""
    sealed = Sealed(msgspec.json.encode([TOOL]), items=1, is_text=False)
    assert response_bodies.decoded(response_bodies.beginning("m", {"tools": sealed}, OWN))["tools"] == [TOOL]


@pytest.mark.parametrize(
    ("status", "code"), [(400, "invalid_prompt"), (402, "rate_limit_exceeded"), (429, "rate_limit_exceeded"),
                         (502, "server_error"), (0, "server_error")]
)  # fmt: skip
def test_a_failure_has_one_of_openais_codes(status: int, code: str) -> None:
    """The message is the one that the API would have given."""
    told = msgspec.json.encode({"error": {"message": "shorten the prompt"}})
    error = response_bodies.error_of(status, "context_length", told)
    assert error == {"code": code, "message": "shorten the prompt"}
    failed = as_sdk(response_bodies.with_status(BEGUN, ResponseStatus.FAILED, error))
    assert failed.error is not None
    assert failed.error.code == code


def test_a_failure_without_an_answer_names_its_code() -> None:
    """An attempt that ended with its worker has no body."""
    assert response_bodies.error_of(0, "worker_lost", b"")["message"] == "the response ended with the error worker_lost"


def test_a_completed_response_is_the_engines_with_our_fields() -> None:
    """An incomplete one has not been completed at any time."""
    final: dict[str, object] = {"id": "resp_engine", "status": "completed", "output": [], "background": False}
    body = response_bodies.decoded(response_bodies.completed(final, OWN, 20.0, {"version": "m@1"}))
    assert (body["id"], body["background"], body["completed_at"]) == ("resp_1", True, 20)
    assert body["penstock"] == {"version": "m@1"}
    cut = response_bodies.completed({**final, "status": "incomplete"}, OWN, 20.0)
    assert response_bodies.decoded(cut)["completed_at"] is None


@pytest.mark.parametrize("status", [one for one in ResponseStatus if one.is_over])
def test_each_end_has_an_event_of_the_sdks(status: ResponseStatus) -> None:
    """OpenAI has no event for a cancelled response: it ends as an incomplete one, with its own status."""
    known = [get_args(one.model_fields["type"].annotation)[0] for one in get_args(get_args(ResponseStreamEvent)[0])]
    assert response_bodies.last_event(msgspec.json.encode({"id": "r", "status": status})) in known


@pytest.mark.parametrize(("status", "is_answer"), [("completed", True), ("incomplete", True), ("failed", False)])
def test_only_answers_are_continued(status: str, is_answer: bool) -> None:
    """An answer that was cut at its bound is one."""
    assert response_bodies.is_answer(msgspec.json.encode({"id": "r", "status": status})) is is_answer
