"""A handler that fails in its own ways, on a real platform: its callers' errors, its cost, its log."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.support.patience import until
from tests.support.platforms.books import Books
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

HANDLER = """
import torch

from penstock.worker.engines.torch.handler import Features, Given, Handler, Prepared


class Failing(Handler):
    def preprocess(self, given: Given) -> Prepared:
        text = given.decode() if isinstance(given, bytes) else given
        if text == "beside-word":
            raise RuntimeError(text)
        values = {"model-word": -1.0, "wide-word": -2.0, "none-word": float("nan")}
        return Prepared(features={"x": torch.tensor([values.get(text, 1.0)])}, tokens=7)

    def forward(self, batch: Features) -> Features:
        x = batch["x"]
        if bool((x == -1).any()):
            raise RuntimeError("model-word")
        return {"scores": x.repeat(1, 4 if bool((x == -2).any()) else 3)}

    def example(self) -> Given:
        return "good"
"""
WORDS = ("beside-word", "model-word", "wide-word", "none-word")


@pytest.fixture
def failing(classic_platform: Platform, tmp_path: Path) -> str:
    folder = tmp_path / "failing"
    folder.mkdir()
    (folder / "handler.py").write_text(HANDLER)
    described = {
        "task": "classify",
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, 3]}],
        "item_tokens": 7,
    }
    (folder / "handler.json").write_text(json.dumps(described))
    save_file({"nothing": np.zeros(1, dtype=np.float32)}, folder / "model.safetensors")
    options = ("--name", "failing", "--price", "1/1/0", "--licence", "Apache-2.0", "--workers", "1")
    version = classic_platform.run("models", "push", str(folder), *options).stdout.split()[-1]
    classic_platform.run("aliases", "set", "failing", version)

    def serves() -> bool:
        with classic_platform.http() as http:
            return http.get("/v2/models/failing/ready").status_code == 200

    until("its worker serves", serves, within_s=90, every_s=0.5)
    return version


def ask_v1(platform: Platform, text: str, **more: object) -> tuple[int, str]:
    with platform.http() as http:
        answer = http.post("/v1/classify", json={"model": "failing", "input": text, **more})
    return answer.status_code, answer.text


def ask_v2(platform: Platform, text: str) -> tuple[int, str]:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}
    with platform.http() as http:
        answer = http.post("/v2/models/failing/infer", json={"inputs": [tensor]})
    return answer.status_code, answer.text


def test_a_failing_handler_costs_nothing_and_tells_no_text(classic_platform: Platform, failing: str) -> None:
    """Over each API the same 502, then a free quarantine; the log tells the line, and `penstock explain` the
    culprit.
    """
    books = Books(classic_platform)
    asks: tuple[Callable[[Platform, str], tuple[int, str]], ...] = (ask_v1, ask_v2)
    for text in WORDS:
        for ask in asks:
            assert ask(classic_platform, "good")[0] == 200
            status, said = ask(classic_platform, text)
            assert status == 502, said
    statuses = set()
    for _ in range(3):
        assert ask_v1(classic_platform, "good")[0] == 200
        statuses.add(ask_v1(classic_platform, "model-word")[0])
    assert 400 in statuses
    status, said = ask_v1(classic_platform, "good", use_activation=False)
    assert (status, json.loads(said)["error"]["param"]) == (400, "use_activation")
    books.balance()
    costs = {(row["outcome"], row["cost"]) for row in books.rows.values()}
    assert {outcome for outcome, cost in costs if cost} == {"ok"}
    assert {outcome for outcome, _ in costs} == {"ok", "engine_error", "bad_request"}
    logs = "".join(path.read_text() for path in (classic_platform.home / "logs").glob("engine*.log"))
    assert logs.count("RuntimeError in handler.py, line ") >= 2
    assert "scores is declared FP32 [-1, 3], not FP32 [-1, 4]" in logs
    assert not [text for text in WORDS if text in logs]
    failed = next(name for name, row in books.rows.items() if row["outcome"] == "engine_error")
    assert "the handler of its model failed" in classic_platform.run("explain", failed).stdout
    classic_platform.run("models", "scale", failing, "0")
