"""What decoding an image costs: drawn from the limits, charged by the queue, billed, and the worker counts the same."""

import base64
import io
from dataclasses import replace

import msgspec
import pytest
import torch
from PIL import Image

from penstock.domain.clock import SystemClock
from penstock.domain.models.model import HandlerSettings, Task
from penstock.domain.models.tensors import Datatype, TensorSpec
from penstock.domain.money import MicroUsd, Price
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.ledger import cost_of
from penstock.domain.tokens import Usage
from penstock.gateway.openai.parse import parse
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import TokenizerCache
from penstock.worker.engines.torch.handler import Prepared
from penstock.worker.engines.torch.service import TokenCaps
from tests.support.models.tokenizers import MemoryBlobs
from tests.support.samples.calls import VERSION, arrived, principal, request

ITEM = 256
HANDLER = HandlerSettings(
    name="toy",
    inputs=(TensorSpec(name="image", datatype=Datatype.BYTES, shape=(-1,)),),
    outputs=(TensorSpec(name="scores", datatype=Datatype.FP32, shape=(-1, 2)),),
    item_tokens=ITEM,
)
SEES = replace(
    VERSION,
    task=Task.CLASSIFY,
    handler=HANDLER,
    max_model_len=ITEM,
    price=Price(prompt_per_mtok=MicroUsd(7000), cached_per_mtok=MicroUsd(7000), output_per_mtok=MicroUsd(0)),
)


def url(side: int) -> str:
    out = io.BytesIO()
    Image.new("RGB", (side, side), "red").save(out, "WEBP")
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()


def computed(given: str | bytes) -> int:
    """Return the tokens that the worker counts for the item."""
    return TokenCaps(ITEM).billed(Prepared(features={"x": torch.zeros(1)}, tokens=ITEM, cost=1), given).tokens


@pytest.mark.parametrize("sides", [[64], [64, 3000], [3000, 3000, 6300]])
async def test_the_reserved_tokens_are_those_that_the_worker_counts(sides: list[int]) -> None:
    """Through classification, with images in a list; the model's context is one item's and bounds no list."""
    images = [url(side) for side in sides]
    body = {"model": "m", "input": images}
    parsed = parse(Api.CLASSIFY, msgspec.json.encode(body))
    asked = request(api=Api.CLASSIFY, body=parsed.body, cost=parsed.cost)
    preprocessor = PromptPreprocessor(TokenizerCache(MemoryBlobs()), SystemClock())
    prepared = await preprocessor.prepare(asked, SEES, principal())
    preprocessor.close()
    assert prepared.prompt_tokens == sum(map(computed, images))
    call = arrived(api=Api.CLASSIFY, cost=parsed.cost).chosen(SEES, prepared)
    assert call.cost.prompt_tokens == prepared.prompt_tokens
    assert call.cost.work_tokens == 0, "decoding is in the prompt's tokens, and is not charged twice"


def test_few_bytes_of_many_pixels_are_dear() -> None:
    """A bomb that holds a core for half a second costs what a long prompt does; an icon costs its item."""
    bomb, icon = computed(url(6300)), computed(url(64))
    assert icon == ITEM + 4 + 1
    assert bomb > 6300 * 6300 // 1024
    assert cost_of(SEES.price, Usage(prompt_tokens=bomb)) > 100 * cost_of(SEES.price, Usage(prompt_tokens=icon))


def test_bytes_and_addresses_cost_their_pixels_alike() -> None:
    """The Open Inference Protocol's elements are bytes: only what is copied differs."""
    data = base64.b64decode(url(3000).partition(",")[2])
    assert abs(computed(data) - computed(url(3000))) <= 1


def test_a_models_texts_are_no_images() -> None:
    """A model that reads text tokenises an address as any other text."""
    assert TokenCaps(0).billed(Prepared(features={"x": torch.zeros(1)}, tokens=9, cost=1), url(3000)).tokens == 9
