import pytest

from penstock.formats.abilities import Ability, abilities
from penstock.packaging.demo_models import SMOLLM2_TEMPLATE

PLAIN = "{% for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}"
TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}"
ONLY_NAMED = "{% if tools %}You have tools.{% endif %}"
DOCUMENTS = "{% for one in documents or [] %}{{ one.text }}{% endfor %}"
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
DROPS_SYSTEM = "{% for message in messages if message.role != 'system' %}{{ message.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", set()),
        ("{% for", set()),
        (PLAIN, {Ability.SYSTEM}),
        (TOOLS + PLAIN, {Ability.SYSTEM, Ability.TOOLS}),
        (ONLY_NAMED + PLAIN, {Ability.SYSTEM}),
        (DOCUMENTS + PLAIN, {Ability.SYSTEM, Ability.DOCUMENTS}),
        (NO_SYSTEM + PLAIN, set()),
        (DROPS_SYSTEM, set()),
        (PLAIN + "{{ messages[0].name }}", {Ability.SYSTEM, Ability.NAMES}),
        (PLAIN + "{% if reasoning_effort == 'high' %}Think.{% endif %}", {Ability.SYSTEM, Ability.EFFORT}),
        (PLAIN + "{% if enable_thinking %}Think.{% endif %}", {Ability.SYSTEM, Ability.EFFORT}),
        (
            (SMOLLM2_TEMPLATE / "chat_template.jinja").read_text(),
            {Ability.SYSTEM, Ability.TOOLS, Ability.TOOL_TURNS},
        ),
    ],
    ids=range(12),
)
def test_an_ability_is_what_rendering_shows(source: str, expected: set[Ability]) -> None:
    """A word in the source is none; neither is a template that refuses, or that does not compile."""
    assert set(abilities(source)) == expected
