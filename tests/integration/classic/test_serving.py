"""Classic models on a real platform: through gateway, gate and batcher."""

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from PIL import Image

from penstock.formats import pictures
from penstock.packaging.demo_models import PICTURES
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.tree import ROOT

pytestmark = pytest.mark.integration

CLASSIFY = "/v1/classify"
TRUTH = json.loads((ROOT / "tests/unit/worker/engines/torch/truth.json").read_text())["minilm"]


def data_url(data: bytes, kind: str = "jpeg") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


ESPRESSO = data_url((PICTURES / "espresso.jpg").read_bytes())
TRIPOD = data_url((PICTURES / "tripod.jpg").read_bytes())


def asked(given: object) -> dict[str, object]:
    return {"model": "efficientnet", "input": given}


def test_images_whose_label_is_known_get_it(classic_platform: Platform) -> None:
    """Two public pictures in one request: labels in order, a thousand scores each that add up to 1."""
    with classic_platform.http() as http:
        answer = http.post(CLASSIFY, json=asked([ESPRESSO, TRIPOD]))
    assert answer.status_code == 200
    rows = answer.json()["data"]
    assert [row["label"] for row in rows] == ["espresso", "tripod"]
    assert [sum(row["probs"]) for row in rows] == pytest.approx([1.0, 1.0], abs=1e-4)
    assert answer.json()["usage"]["prompt_tokens"] == 512 + sum(map(pictures.tokens_of_item, (ESPRESSO, TRIPOD)))


def test_png_and_webp_are_the_same_image(classic_platform: Platform) -> None:
    """A lossless encoding doesn't matter."""
    image = Image.open(PICTURES / "espresso.jpg")
    labels = set()
    with classic_platform.http() as http:
        for kind in ("png", "webp"):
            out = io.BytesIO()
            image.save(out, kind, lossless=True)
            answer = http.post(CLASSIFY, json=asked(data_url(out.getvalue(), kind)))
            labels.add(answer.json()["data"][0]["label"])
    assert labels == {"espresso"}


def test_what_is_no_image_is_a_400_and_hurts_nobody(classic_platform: Platform) -> None:
    """Text, a cut file and a CMYK one are the caller's fault, each with its reason; the next image is answered."""
    cmyk = io.BytesIO()
    Image.new("CMYK", (64, 64)).save(cmyk, "JPEG")
    wrong = {
        "a word": "must be an image as data:",
        data_url(b"no image"): "no JPEG, PNG or WebP image",
        data_url((PICTURES / "espresso.jpg").read_bytes()[:900]): "cut off or damaged",
        data_url(cmyk.getvalue()): "CMYK",
    }
    with classic_platform.http() as http:
        for given, says in wrong.items():
            answer = http.post(CLASSIFY, json=asked(given))
            assert answer.status_code == 400
            assert says in answer.json()["error"]["message"]
        assert http.post(CLASSIFY, json=asked(ESPRESSO)).json()["data"][0]["label"] == "espresso"


def test_texts_get_their_topics(classic_platform: Platform) -> None:
    """Texts of several lengths in one request have their labels in order and few tokens; one too long is a 400."""
    texts = ["The ferry leaves the harbour at noon.", "Our quarterly revenue grew by twelve percent.", "sonata"]
    with classic_platform.http() as http:
        answer = http.post(CLASSIFY, json={"model": "topics", "input": texts})
        long = http.post(CLASSIFY, json={"model": "topics", "input": "a word " * 300})
    assert [row["label"] for row in answer.json()["data"]] == ["transport", "business", "music"]
    assert [sum(row["probs"]) for row in answer.json()["data"]] == pytest.approx([1.0] * 3, abs=1e-5)
    assert 15 < answer.json()["usage"]["prompt_tokens"] < 40
    assert long.status_code == 400


def test_a_model_answers_its_own_apis_alone(classic_platform: Platform) -> None:
    """A classifier gives no vectors, an encoder no labels: a 400 that names the field."""
    with classic_platform.http() as http:
        for path, model in (
            ("/v1/embeddings", "efficientnet"),
            ("/v1/embeddings", "topics"),
            (CLASSIFY, "minilm-torch"),
        ):
            answer = http.post(path, json={"model": model, "input": "x"})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")


def test_vectors_are_the_published_ones_through_the_sdk(classic_platform: Platform) -> None:
    """OpenAI's SDK, which asks for base64, gets the published model's vectors within 1e-5."""
    with OpenAI(base_url=f"{classic_platform.url}/v1", api_key=classic_platform.demo_key) as client:
        answer = client.embeddings.create(model="minilm-torch", input=list(TRUTH))
    for row, vector in zip(answer.data, TRUTH.values(), strict=True):
        assert row.embedding == pytest.approx(vector, abs=1e-5)


def test_the_command_line_classifies_and_embeds(classic_platform: Platform) -> None:
    """`penstock ask --image` tells the label, `embed` a line of JSON for each text, `classify` a label."""
    shown = classic_platform.run("ask", "--image", str(PICTURES / "tripod.jpg"))
    assert shown.stdout.startswith("tripod ")
    assert "queue " in shown.stderr
    lines = classic_platform.run("embed", "--model", "minilm-torch", *TRUTH).stdout.splitlines()
    assert [json.loads(line)[0] for line in lines] == pytest.approx([one[0] for one in TRUTH.values()], abs=1e-5)
    told = classic_platform.run(
        "classify", "How long should I boil an egg?", "The judge freed him."
    ).stdout.splitlines()
    assert [line.split()[0] for line in told] == ["cooking", "law"]


def page() -> list[str]:
    """Return the code blocks of the page, in order."""
    text = (ROOT / "docs/how-to/serve-your-own-torch-model.md").read_text()
    return re.findall(r"```\w+\n(.*?)```", text, re.DOTALL)


def test_the_page_s_own_model_is_served(classic_platform: Platform, tmp_path: Path) -> None:
    """What "serve your own torch model" tells a newcomer to type works as it stands: train, push, name, ask."""
    train, _, handler, description, *_ = page()
    (tmp_path / "train.py").write_text(train)
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "languages/handler.py").write_text(handler)
    (tmp_path / "languages/handler.json").write_text(description)
    options = ("--name", "languages", "--price", "0.01/0.01/0", "--licence", "Apache-2.0", "--workers", "1")
    version = classic_platform.run("models", "push", str(tmp_path / "languages"), *options).stdout.split()[-1]
    classic_platform.run("aliases", "set", "languages", version)
    body = {"model": "languages", "input": ["le chien et la pluie", "waiting in the hills"]}
    answers: list[Any] = []

    def is_answered() -> bool:
        with classic_platform.http() as http:
            answers.append(http.post(CLASSIFY, json=body))
        return bool(answers[-1].status_code == 200)

    until("its worker answers", is_answered, within_s=90, every_s=0.5)
    assert [row["label"] for row in answers[-1].json()["data"]] == ["French", "English"]
    classic_platform.run("models", "scale", version, "0")
