"""What the author of a handler is told of its faults, and what stays out of it."""

import logging
from collections.abc import Iterator

import pytest

from penstock.domain.serving.request import Api
from penstock.worker.engines import log_lines
from penstock.worker.engines.torch.handler import Features, Given, Prepared
from tests.support.engines.torch_handler import Toy, model, running


@pytest.fixture(autouse=True)
def _as_an_engine_logs() -> Iterator[None]:
    """An engine leaves out of its log whatever a request may have said."""
    before = logging.getLogRecordFactory()
    log_lines.install()
    yield
    logging.setLogRecordFactory(before)


async def test_a_handler_that_lets_an_input_s_fault_through_hears_where() -> None:
    """The class and the line, for whoever wrote the handler; the error's own words may be a caller's."""
    async with running() as engine:
        answer = await engine.post(Api.CLASSIFY, {"input": "fault"})
    assert answer.status == 400
    said = answer.json["error"]["message"]
    assert "ValueError in torch_handler.py, line " in said
    assert "fault" not in said.replace("handler", "")


async def test_the_log_says_where_a_model_failed(caplog: pytest.LogCaptureFixture) -> None:
    """A caller hears that the engine failed; its log names the line, without what the error says."""
    async with running() as engine:
        answer = await engine.post(Api.CLASSIFY, {"input": "boom"})
    assert (answer.status, answer.json["error"]["reason"]) == (500, "handler")
    assert "RuntimeError in torch_handler.py, line " in caplog.text
    assert "boom" not in caplog.text


class Careless(Toy):
    """Its own code raises, with a caller's text in what it says, before and after the model."""

    def preprocess(self, given: Given) -> Prepared:
        if given == "pre-word":
            raise RuntimeError(given)
        return super().preprocess(given)

    def postprocess(self, row: Features) -> Features:
        if row["scores"][0] == len("a post-word"):
            raise ValueError("a post-word")
        return row


@pytest.mark.parametrize(("text", "kind"), [("pre-word", "RuntimeError"), ("a post-word", "ValueError")])
async def test_a_handler_that_fails_beside_the_model_is_told_alike(
    text: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server's traceback had the error's words; the log has its class and place, the caller a 500 in JSON."""
    async with running(Careless(model())) as engine:
        answer = await engine.post(Api.CLASSIFY, {"input": text})
        assert (answer.status, answer.json["error"]["reason"]) == (500, "handler")
        assert (await engine.post(Api.CLASSIFY, {"input": "good"})).status == 200
    assert f"the model failed: {kind} in test_places.py, line " in caplog.text
    assert text not in caplog.text
