"""The last message of a Messages conversation, if it is the assistant's, is continued."""

from types import SimpleNamespace

import pytest

from penstock.worker.engines.prefill import continuing


@pytest.mark.parametrize(
    ("role", "flags"), [("assistant", (False, True)), ("user", (True, False)), ("tool", (True, False))]
)
def test_a_beginning_of_the_answer_is_continued(role: str, flags: tuple[bool, bool]) -> None:
    """Other conversations open a new turn."""
    chat = SimpleNamespace(messages=[{"role": role}], add_generation_prompt=True, continue_final_message=False)
    made = continuing(lambda: chat)()
    assert (made.add_generation_prompt, made.continue_final_message) == flags
