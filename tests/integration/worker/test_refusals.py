"""Mistakes that only real vLLM's grammar compiler finds, or that it finds inside a stream: its words, and their
reader.
"""

import json
from typing import Any

import httpx
import pytest

from penstock.gateway.dispatch import verdict
from tests.support.failures.table import leaks, log_folders
from tests.support.workers.process import WorkerProcess

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

CHAT, COMPLETIONS, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
SAY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
SECRET = "S3CRET-of-a-grammar"
LETTERS = {"regex": rf"\p{{L}}+{SECRET}"}
"""Accepted by one of vLLM's compilers, and unknown to the one that then compiles it."""
AHEAD = {"json": {"type": "string", "pattern": f"^{SECRET}(?!x)$"}}
"""Compiled, with a warning that quotes it."""
DEAD_END = "root ::= [a-z ]{6} x\nx ::= x"
"""Compiled, and after six letters without a way on."""
AMBIGUOUS = "root ::= s\ns ::= s s | s s s | s s s s | [a-z ] | [a-y ]"
"""Compiled, and dearer with each letter."""
RULES = 16
READINGS = "\n".join(
    f"s{i} ::= s{i} s{i} | s{(i + 1) % RULES} s{i} | s{(i + 7) % RULES} | [a-z ]" for i in range(RULES)
)
"""An hour and more to compile."""
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {**SAY, "structured_outputs": LETTERS}),
    "a prompt": (COMPLETIONS, {"prompt": "hi", "max_tokens": 4, "structured_outputs": LETTERS}),
    "no first token": (CHAT, {**SAY, "structured_outputs": {"grammar": "root ::= root"}}),
    "no further token": (CHAT, {**SAY, "max_tokens": 30, "structured_outputs": {"grammar": DEAD_END}}),
    "too many readings": (
        CHAT,
        {**SAY, "min_tokens": 400, "max_tokens": 400, "structured_outputs": {"grammar": AMBIGUOUS}},
    ),
    "too slow to compile": (CHAT, {**SAY, "structured_outputs": {"grammar": f"root ::= s0\n{READINGS}"}}),
    "messages": (MESSAGES, {**SAY, "thinking": {"type": "enabled", "budget_tokens": 1024}}),
}


def code_of(answer: httpx.Response) -> int:
    """Return the status of an answer, or of the error in its stream, as a gateway reads it."""
    if answer.status_code != 200:
        return answer.status_code
    event = next(event for event in answer.text.split("\n\n") if '"error"' in event)
    assert verdict.of_event(event.encode()).reason == "refused", event
    code: int = json.loads(event.partition("data: ")[2])["error"]["code"]
    return code


def test_what_the_engine_can_not_do_is_the_callers_to_change(unhurried: WorkerProcess) -> None:
    """Odd schemas: vLLM's 500 for a grammar was a 502 and a suspicion on the worker; it is a 400, and in no log."""
    asked = {
        (name, stream): unhurried.post(path, {**body, "model": unhurried.version, "stream": stream})
        for name, (path, body) in ASKED.items()
        for stream in (False, True)
    }
    assert {how: code_of(answer) for how, answer in asked.items()} == dict.fromkeys(asked, 400)
    ahead = unhurried.post(CHAT, {**SAY, "structured_outputs": AHEAD, "model": unhurried.version})
    assert ahead.status_code in (200, 400), ahead.text
    logs = "".join(path.read_text() for path in (unhurried.home / "logs").glob("*.log"))
    assert "(APIServer" in logs  # the search looks where the engine writes
    assert list(leaks(log_folders(unhurried.home), SECRET)) == []
