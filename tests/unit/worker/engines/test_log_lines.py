"""What an engine logs of what callers write."""

import logging
from collections.abc import Iterator

import pytest
from xgrammar import Grammar

from penstock.worker.engines import log_lines
from penstock.worker.meter import Meter, current

SECRET = "S3CRET"
FORGED = "x\ntorch.AcceleratorError: CUDA error: replace GPU 3"


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    before = logging.getLogRecordFactory()
    log_lines.install()
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.parametrize("text", [FORGED, "\r\x1b[2K", "a\x85b", "a\u2028b"])
def test_what_callers_write_makes_no_line(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """A caller's id had a line break, and the platform told of a broken GPU: a record is one line without escapes."""
    logging.getLogger("vllm.x").warning("no such part: %s", text)
    (record,) = caplog.records
    assert len(record.getMessage().splitlines()) == 1
    assert record.getMessage().isprintable()


def test_what_a_request_says_is_not_logged_while_it_is_served(caplog: pytest.LogCaptureFixture) -> None:
    """The engine logs parts of bodies that it can't read: its own words stay, those of the request don't."""
    putting = current.set(Meter())
    try:
        logging.getLogger("vllm.x").warning("can't read %s", "SECRET")
        logging.getLogger("vllm.x").warning("can't read SECRET")  # as an f-string leaves it
    finally:
        current.reset(putting)
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"can't read %s {log_lines.LEFT_OUT}"
    assert said[1].startswith("vllm.x:")
    assert "SECRET" not in "".join(said)


def test_a_grammar_that_does_not_compile_leaves_its_text_in_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """The engine's core compiles outside of requests, and logged the schema with the error that quotes it."""
    try:
        Grammar.from_json_schema(f'{{"type": "{SECRET}"}}')
    except RuntimeError:
        logging.getLogger("vllm.v1.structured_output").exception("Failed to compile grammar for request %s", "r-1")
    logging.getLogger("vllm.v1.structured_output.backend_guidance").warning("LLMatcher error: %s", SECRET)
    logging.getLogger("vllm.v1.core.sched.scheduler").error("grammar rejected tokens %s for request %s", [7], "r-1")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"Failed to compile grammar for request %s {log_lines.LEFT_OUT}"
    assert "RuntimeError (" in caplog.text
    assert [text for text in (SECRET, "[7]", "r-1") if text in caplog.text] == []


def test_to_install_it_twice_is_to_install_it_once(caplog: pytest.LogCaptureFixture) -> None:
    """A core that was forked from its server has it already, and one that was spawned has not."""
    log_lines.install()
    logging.getLogger("vllm.v1.structured_output").error("can't compile %s", SECRET)
    assert caplog.records[0].getMessage() == f"can't compile %s {log_lines.LEFT_OUT}"


def test_the_engines_own_words_stay(caplog: pytest.LogCaptureFixture) -> None:
    """Outside of requests a record says what it said, per cent signs and all."""
    logging.getLogger("vllm.x").warning("%d of %s, 100%%", 3, "five")
    assert caplog.records[0].getMessage() == "3 of five, 100%"


def test_an_error_of_a_request_is_logged_by_its_places_alone(caplog: pytest.LogCaptureFixture) -> None:
    """A server's traceback ended in the error's words, which may quote a prompt; causes have words too."""
    putting = current.set(Meter())
    try:
        try:
            try:
                raise KeyError(SECRET)
            except KeyError as error:
                raise RuntimeError(SECRET) from error
        except RuntimeError:
            logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    finally:
        current.reset(putting)
    assert SECRET not in caplog.text
    assert "test_log_lines.py" in caplog.text
    assert [word in caplog.text for word in ("RuntimeError (", "caused by", "KeyError (")] == [True] * 3
