"""The text classifier that is shipped: its head on the real encoder does what its card says."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from penstock.domain.errors import ArtifactRefused
from penstock.packaging.demo_models import TOPICS, TOPICS_HEAD
from penstock.worker.engines.torch import texts as tokens
from penstock.worker.engines.torch.handler import Model
from penstock.worker.engines.torch.handlers.sentences import EMBEDDING, SentenceEncoder
from penstock.worker.engines.torch.handlers.text_classifier import BIAS, HEAD, SCORES, WEIGHT, TextClassifier
from scripts.topics.head import is_held_out

DEMO_CACHE = Path(__file__).resolve().parents[5] / ".penstock/cache/demo"
SLICE = Path(__file__).with_name("topics.tsv")
LABELS = (TOPICS_HEAD / "labels.txt").read_text().splitlines()
CARD = (TOPICS_HEAD / "README.md").read_text()
BATCH = 32
MARGIN = 0.01
"""What another processor's rounding may change: two or three texts of the slice that lie between topics."""


def folder(alias: str) -> Path:
    """Return the demo model's newest files, or skip where nobody has prepared them (``make models``)."""
    found = sorted(DEMO_CACHE.glob(f"{alias}-[0-9a-f]*"), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.skip(f"{alias} is not prepared here")
    return found[-1]


def model(where: Path) -> Model:
    settings = TOPICS.choices.handler
    assert settings is not None
    return Model(folder=where, settings=settings, device=torch.device("cpu"), dtype=torch.float32, max_tokens=256)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> TextClassifier:
    """Return the real encoder with the head as it lies in the repository."""
    where = tmp_path_factory.mktemp("topics")
    for path in (*folder("minilm").iterdir(), *TOPICS_HEAD.iterdir()):
        if path.is_file():
            (where / path.name).symlink_to(path)
    return TextClassifier(model(where))


def scores(handler: TextClassifier, *texts: str | bytes) -> torch.Tensor:
    """Return the scores of texts that are padded to one length."""
    rows = [handler.preprocess(text).features for text in texts]
    with torch.inference_mode():
        return handler.forward({name: torch.stack([row[name] for row in rows]) for name in rows[0]})[SCORES]


def topics_of(handler: TextClassifier, texts: list[str]) -> dict[str, str]:
    """Return each text's topic; those that are padded to one length are computed together, for time."""
    groups: dict[int, list[str]] = defaultdict(list)
    for text in texts:
        groups[handler.preprocess(text).features[tokens.IDS].numel()].append(text)
    cuts = [(group, at) for group in groups.values() for at in range(0, len(group), BATCH)]
    batches = [group[at : at + BATCH] for group, at in cuts]
    return {
        text: LABELS[int(best)]
        for batch in batches
        for text, best in zip(batch, scores(handler, *batch).argmax(-1), strict=True)
    }


def kept() -> list[tuple[str, str]]:
    """Return topic and text of the slice."""
    lines = SLICE.read_text().splitlines()
    return [(topic, text) for topic, _, text in (line.partition("\t") for line in lines if line[0] != "#")]


def number(name: str) -> float:
    found = re.search(rf"^{name}: ([0-9.]+)$", CARD, re.MULTILINE)
    assert found is not None
    return float(found.group(1))


def test_the_accuracy_is_the_card_s(classifier: TextClassifier) -> None:
    """Of the texts kept from training as many get their topic as the card says, far more than by always telling one."""
    told = topics_of(classifier, [text for _, text in kept()])
    right = sum(told[text] == topic for topic, text in kept()) / len(kept())
    assert right == pytest.approx(number("sample_accuracy"), abs=MARGIN)
    assert number("accuracy") > 0.8 > 5 * number("majority_baseline")


def test_the_slice_was_held_out() -> None:
    """No text of the slice was trained on, each has one of the labels, and all labels are there."""
    assert all(is_held_out(text) for _, text in kept())
    assert {topic for topic, _ in kept()} == set(LABELS)


def test_the_golden_texts_lead_clearly(classifier: TextClassifier) -> None:
    """Each is told by more than twice the next score: rounding elsewhere does not make a worker unfit."""
    for golden in TOPICS.choices.golden:
        best = scores(classifier, golden.prompt)[0].topk(2)
        assert LABELS[int(best.indices[0])] == golden.expect
        assert best.values[0] > 2 * best.values[1]


def test_scores_are_the_head_s_on_the_encoder_s_vectors(classifier: TextClassifier) -> None:
    """Text or bytes, alone or in a batch: the softmax of one linear layer, which adds up to 1."""
    texts = [text for _, text in kept() if 40 < len(text) < 50][:4]
    batch = scores(classifier, *texts)
    encoder = SentenceEncoder(model(folder("minilm")))
    head = load_file(TOPICS_HEAD / HEAD)
    assert batch.shape == (4, len(LABELS))
    for text, row in zip(texts, batch, strict=True):
        assert torch.allclose(scores(classifier, text.encode())[0], row, atol=1e-6)
        features = {name: one[None] for name, one in encoder.preprocess(text).features.items()}
        logits = encoder.forward(features)[EMBEDDING][0] @ head[WEIGHT].T + head[BIAS]
        assert torch.allclose(logits.softmax(-1), row, atol=1e-5)


def test_a_version_without_its_head_is_refused() -> None:
    """The encoder alone does not serve as a classifier."""
    with pytest.raises(ArtifactRefused, match=r"head\.safetensors with .* is missing"):
        TextClassifier(model(folder("minilm")))


def test_what_is_kept_here_is_small() -> None:
    """Head, labels and card are kilobytes, and as many classes as the version describes."""
    assert sum(path.stat().st_size for path in TOPICS_HEAD.iterdir()) < 100_000
    settings = TOPICS.choices.handler
    assert settings is not None
    assert settings.outputs[0].shape[-1] == len(LABELS)
