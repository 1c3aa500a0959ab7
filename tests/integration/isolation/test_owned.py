"""A version that is one tenant's alone, on a running platform: for all others there is none of that name."""

import re
from collections.abc import Iterator, Mapping

import pytest
import tritonclient.grpc as triton

from tests.support.patience import until
from tests.support.platforms.tenants import Strangers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ABSENT = "absent"
TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["hi"]}
ADDRESSES: Mapping[str, tuple[str, str, Mapping[str, object] | None]] = {
    "embeddings": ("POST", "/v1/embeddings", {"model": "NAME", "input": "hi"}),
    "chat": ("POST", "/v1/chat/completions", {"model": "NAME", "messages": [{"role": "user", "content": "hi"}]}),
    "a model": ("GET", "/v1/models/NAME", None),
    "metadata": ("GET", "/v2/models/NAME", None),
    "ready": ("GET", "/v2/models/NAME/ready", None),
    "infer": ("POST", "/v2/models/NAME/infer", {"inputs": [TENSOR]}),
}
"""Where a caller names a model, in the address or in the body."""


def embeds(strangers: Strangers, secret: str, name: str) -> int:
    """Return the status of a request for a vector with this key."""
    body = {"model": name, "input": "hi"}
    return strangers.ask(strangers.platform.url, secret, "POST", "/v1/embeddings", body).status_code


@pytest.fixture(scope="module")
def owned(strangers: Strangers) -> Iterator[tuple[str, ...]]:
    """Yield all names of the encoder while it is the victim's alone: its alias, its version, its whole digest."""
    shares = {one["alias"]: one["shares"] for one in strangers.act("GET", "/aliases")["aliases"]}
    version = str(shares["minilm"][0]["version"])
    assert embeds(strangers, strangers.infer, "minilm") == 200
    strangers.act("PUT", f"/models/{version}/tenants", {"tenants": [strangers.victim]})
    try:
        until("the gateway has heard", lambda: embeds(strangers, strangers.infer, "minilm") == 404, within_s=10)
        digest = strangers.act("GET", f"/models/{version}")["digest"]
        yield "minilm", version, f"{version.partition('@')[0]}@{digest}"
    finally:
        strangers.act("PUT", f"/models/{version}/tenants", {"tenants": None})
        until("it is everybody's again", lambda: embeds(strangers, strangers.infer, "minilm") == 200, within_s=10)


def told(strangers: Strangers, what: str, name: str) -> tuple[int, str]:
    """Return what the stranger hears, with the name left out that it gave itself, and its request's id."""
    method, path, body = ADDRESSES[what]
    asked = {key: name if value == "NAME" else value for key, value in body.items()} if body is not None else None
    answer = strangers.ask(strangers.platform.url, strangers.infer, method, path.replace("NAME", name), asked)
    return answer.status_code, re.sub(r"req-\w+", "ID", answer.text.replace(name[:80], "NAME"))


@pytest.mark.parametrize("what", list(ADDRESSES))
def test_a_stranger_hears_what_it_hears_of_a_name_that_nobody_has(
    strangers: Strangers, owned: tuple[str, ...], what: str
) -> None:
    """Alias, version and digest: the status and all words are those of a model that was never there."""
    absent = told(strangers, what, ABSENT)
    assert absent[0] in {400, 404}
    assert {name: told(strangers, what, name) for name in owned} == dict.fromkeys(owned, absent)


def test_no_list_has_it_for_a_stranger(strangers: Strangers, owned: tuple[str, ...]) -> None:
    """Neither OpenAI's list nor the protocol's index names it, and the owner's have it."""
    base, digest = strangers.platform.url, owned[1].partition("@")[2]
    for method, path in (("GET", "/v1/models"), ("POST", "/v2/repository/index")):
        theirs, owners = (
            strangers.ask(base, secret, method, path, {} if method == "POST" else None).raise_for_status().text
            for secret in (strangers.infer, strangers.victims)
        )
        assert (digest in theirs, "minilm" in theirs) == (False, False)
        assert digest in owners


def test_over_grpc_there_is_none_either(strangers: Strangers, owned: tuple[str, ...]) -> None:
    """NVIDIA's client gets the answer to an unknown name, and the owner's gets the metadata."""
    address = (strangers.platform.home / "run/gateway.grpc.addr").read_text().strip().removeprefix("http://")
    said: dict[str, tuple[str | None, str]] = {}
    with triton.InferenceServerClient(address) as client:
        for name in (ABSENT, *owned):
            with pytest.raises(triton.InferenceServerException) as caught:
                client.get_model_metadata(name, headers={"authorization": f"Bearer {strangers.infer}"})
            said[name] = caught.value.status(), str(caught.value.message()).replace(name[:80], "NAME")
        found = client.get_model_metadata("minilm", headers={"authorization": f"Bearer {strangers.victims}"})
    assert set(said.values()) == {said[ABSENT]}
    assert found.name == "minilm"


def test_its_owner_has_it_by_each_name(strangers: Strangers, owned: tuple[str, ...]) -> None:
    """Its owner loses nothing."""
    assert {name: embeds(strangers, strangers.victims, name) for name in owned} == dict.fromkeys(owned, 200)
