"""Which requests are counted in another process: large ones that somebody has to read."""

from dataclasses import replace

import pytest

from penstock.domain.errors import MalformedBody
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.models.model import HandlerSettings
from penstock.domain.models.tensors import Datatype, TensorSpec
from penstock.domain.serving.request import Api, InferenceRequest, Prepared, Sealed
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.preprocess.offload import DONE, OffloadedPreprocessor, refusal, result
from tests.support.gateways.inline_pool import Here
from tests.support.samples.calls import VERSION, principal, request

IMAGES = HandlerSettings(
    name="toy",
    inputs=(TensorSpec(name="image", datatype=Datatype.BYTES, shape=(-1,)),),
    outputs=(TensorSpec(name="scores", datatype=Datatype.FP32, shape=(-1, 2)),),
    item_tokens=7,
)
TEXTS = replace(IMAGES, item_tokens=0)


class Counts:
    """Counts nothing, and how often it was asked."""

    asked = 0

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        """Return a number."""
        self.asked += 1
        return Prepared(prompt_tokens=1)


@pytest.mark.parametrize(
    ("handler", "digest", "elsewhere"),
    [(TEXTS, "", 0), (TEXTS, "large", 1), (None, "large", 1), (IMAGES, "", 0), (IMAGES, "large", 0)],
)
async def test_what_nobody_has_to_read_goes_to_no_other_process(
    handler: HandlerSettings | None, digest: str, elsewhere: int
) -> None:
    """A large text is counted there; an image has its tokens by being one, so its megabytes stay."""
    here, there = Counts(), Here(lambda _: (DONE, b'{"prompt_tokens": 2}'))
    made = OffloadedPreprocessor(here, there, task=b"p")
    body = {"input": Sealed(b'"data:image/jpeg;base64,AAAA"', items=1, is_text=True)}
    asked = replace(request(api=Api.CLASSIFY, body=body), digest=digest)
    await made.prepare(asked, replace(VERSION, handler=handler), principal())
    assert (here.asked, there.asked) == (1 - elsewhere, elsewhere)


def test_a_child_that_recurses_refuses_the_body() -> None:
    """Nesting that passes the bounds is a 400, as any other body that cannot be read."""
    with pytest.raises(MalformedBody, match="nested too deep"):
        result(refusal(RecursionError("maximum recursion depth exceeded")))
