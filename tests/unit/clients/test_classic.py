"""The command line's own client of what answers in one step."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from penstock.cli import application
from penstock.clients.chat import breakdown
from penstock.clients.classic import classify, image_model
from penstock.domain.command_error import CommandError
from penstock.local import connections

app = application()

INPUTS = {"labels": "image", "languages": "text", "mine": "image"}
ANSWER = {
    "data": [{"label": "tripod", "probs": [0.1, 0.9]}],
    "usage": {"prompt_tokens": 256},
    "penstock": {"stages_ms": {"edge": 0.5, "queue": 2.0}},
}


def client(names: list[str], asked: list[str]) -> httpx.Client:
    """Return a client of a platform that serves these models, ready ones by small letters."""

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/index"):
            states = ["READY" if name.islower() else "UNAVAILABLE" for name in names]
            return httpx.Response(200, json=[{"name": n, "state": s} for n, s in zip(names, states, strict=True)])
        if path.startswith("/v2/models/"):
            name = path.rpartition("/")[2]
            kind, given = ("classify", INPUTS[name.lower()]) if name.lower() in INPUTS else ("generate", "text_input")
            return httpx.Response(200, json={"platform": f"penstock_{kind}", "inputs": [{"name": given}]})
        asked.append(json.loads(request.content)["model"])
        headers = {"x-request-id": "req-1", "x-penstock-version": "labels@0123456789ab"}
        return httpx.Response(200, json=ANSWER, headers=headers)

    return httpx.Client(base_url="http://gateway", transport=httpx.MockTransport(answer))


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["smollm2", "languages", "labels"], "labels"),
        (["LABELS", "smollm2", "labels"], "labels"),
        (["smollm2", "LABELS"], "LABELS"),
    ],
)
def test_the_model_that_takes_images_is_chosen(names: list[str], chosen: str) -> None:
    """By what models say that they take; one that is ready comes before one that is not."""
    with client(names, []) as http:
        assert image_model(http) == chosen


def test_a_platform_without_such_a_model_says_so() -> None:
    """With what would start one, and not with an error of a model that writes."""
    with client(["smollm2", "languages"], []) as http, pytest.raises(CommandError, match="No model here") as caught:
        image_model(http)
    assert "efficientnet" in caught.value.do


@pytest.mark.parametrize("wanted", ["languages", "smollm2"])
def test_a_model_that_takes_no_images_is_not_asked_about_one(wanted: str) -> None:
    """It read the image's URL as a text and told a topic; the error names those that take images."""
    with client(["labels", "mine", "smollm2"], []) as http, pytest.raises(CommandError, match=wanted) as caught:
        image_model(http, wanted)
    assert caught.value.do == "These do: labels, mine."
    with client(["languages"], []) as http, pytest.raises(CommandError, match="no other model here does"):
        image_model(http, wanted)


def test_an_answer_tells_what_it_took() -> None:
    """The best label with its score, and version, tokens, time and stages as a text's answer tells them."""
    ticks: Iterator[float] = iter([1.0, 1.25])
    now: Callable[[], float] = lambda: next(ticks)  # noqa: E731  a clock
    with client(["labels"], []) as http:
        told = classify(http, "labels", "data:", now)
    assert told.found == (("tripod", 0.9),)
    assert breakdown(told.stats).splitlines() == [
        "labels@0123456789ab · request req-1",
        "256 prompt tokens · 0.25 s in all",
        "edge 0.5 ms · queue 2.0 ms",
    ]


@pytest.mark.parametrize(
    ("options", "model", "tells"),
    [([], "labels", True), (["--no-stages"], "labels", False), (["--model", "mine"], "mine", True)],
)
def test_ask_image_takes_its_own_model_and_tells_stages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str], model: str, tells: bool
) -> None:
    """Without --model the one that takes images is asked; --stages counts for images as for texts."""
    asked: list[str] = []
    monkeypatch.setattr(connections, "gateway", lambda *_: client(["smollm2", "labels"], asked))
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    (tmp_path / "cat.jpg").write_bytes(b"x")
    shown = CliRunner().invoke(app, ["ask", "--image", str(tmp_path / "cat.jpg"), *options])
    assert (shown.exit_code, asked, shown.stdout) == (0, [model], "tripod  90.0%\n")
    assert ("queue 2.0 ms" in shown.stderr) is tells


def test_a_question_about_an_image_is_refused(tmp_path: Path) -> None:
    """What nobody reads is not taken."""
    shown = CliRunner().invoke(app, ["ask", "What is this?", "--image", str(tmp_path / "cat.jpg")])
    assert (shown.exit_code, "Leave out" in shown.stderr) == (1, True)
