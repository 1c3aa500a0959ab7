"""The betas of Anthropic's API against the SDK that is installed, and over the real listener."""

import typing

import pytest
from anthropic.types import AnthropicBetaParam

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import Api
from penstock.gateway.openai import betas
from tests.support.gateways.server import Client, on_uvloop
from tests.support.gateways.toy import SECRET, running

BODY = b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}'


def test_each_beta_of_the_sdk_has_a_verdict() -> None:
    """A newer SDK with a beta that the table does not know fails here."""
    listed = {one for part in typing.get_args(AnthropicBetaParam) for one in typing.get_args(part)}
    tables = [betas.SERVED, *betas.TOLD.values()]
    assert len(listed) > 10
    assert set().union(*tables) == listed
    assert sum(map(len, tables)) == len(listed)


def given(*values: str) -> list[tuple[bytes, bytes]]:
    return [(b"anthropic-beta", value.encode()) for value in values]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((), ()),
        (("token-counting-2024-11-01",), ()),
        (("context-1m-2025-08-07, made-up-2099-01-01",), ("context-1m-2025-08-07", "made-up-2099-01-01")),
        (("made-up", "skills-2025-10-02,"), ("made-up", "skills-2025-10-02")),
    ],
)
def test_what_has_no_effect_is_told(values: tuple[str, ...], told: tuple[str, ...]) -> None:
    """Known or made up, in one header or in several."""
    assert betas.told(given(*values)) == tuple(f"anthropic-beta={name}" for name in told)


@pytest.mark.parametrize("value", ["a b", "x" * 65, "\xe4", ",".join(f"b{i}" for i in range(33)), "A"])
def test_what_is_no_list_of_names_is_refused(value: str) -> None:
    """The header of the answer does not grow with the caller's."""
    with pytest.raises(InvalidField) as caught:
        betas.told(given(value))
    assert caught.value.param == "anthropic-beta"


@pytest.mark.parametrize(("api", "told"), [(Api.MESSAGES, "anthropic-beta=made-up"), (Api.CHAT, None)])
@on_uvloop
async def test_the_answer_names_it(api: Api, told: str | None) -> None:
    """On Messages alone: elsewhere the header says nothing."""
    async with running() as gateway:
        client = await Client.to(gateway)
        head = f"POST {api} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {SECRET}\r\nanthropic-beta: made-up\r\n"
        client.send(f"{head}content-length: {len(BODY)}\r\n\r\n".encode() + BODY)
        status, headers, _ = await client.response()
        assert (status, headers.get("x-penstock-ignored")) == (200, told)
        await client.close()
