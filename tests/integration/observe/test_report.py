"""How often another rule's model would have agreed: on real engines, against transformers with the same weights."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import DEMO_CACHE
from tests.support.models import trained_adapters
from tests.support.patience import until
from tests.support.platforms.observed import Observed
from tests.support.tls.processes import operator


class Reader:
    """SmolLM2 as transformers runs it, with the weights of a given adapter added."""

    def __init__(self, folder: Path, adapter: Path | None = None) -> None:
        """Load the model; an adapter's product is added to each of its layers, as LoRA is defined (Hu et al. 2021)."""
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch = torch
        self._tokens: Any = AutoTokenizer.from_pretrained(folder)
        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        if adapter is not None:
            self._add(adapter)

    def likeliest(self, question: str, answer: str) -> list[int]:
        """Return the likeliest token at each place of the answer, behind the question in the model's own template."""
        messages = [{"role": "user", "content": question}]
        prompt = self._tokens.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        before = self._tokens(prompt, add_special_tokens=False)["input_ids"]
        ids = self.ids(answer)
        with self._torch.inference_mode():
            logits = self._model(self._torch.tensor([before + ids])).logits[0, len(before) - 1 : -1]
        found: list[int] = logits.argmax(dim=-1).tolist()
        return found

    def ids(self, answer: str) -> list[int]:
        """Return an answer's tokens, with the one that ends it."""
        ids: list[int] = self._tokens(answer, add_special_tokens=False)["input_ids"]
        return [*ids, self._tokens.eos_token_id]

    def _add(self, adapter: Path) -> None:
        from safetensors.torch import load_file

        settings = json.loads((adapter / "adapter_config.json").read_text())
        tensors, layers = load_file(adapter / "adapter_model.safetensors"), dict(self._model.named_modules())
        for name, down in tensors.items():
            if "lora_A" not in name:
                continue
            layer = layers[name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")]
            up = tensors[name.replace("lora_A", "lora_B")]
            more = (up.float() @ down.float()) * (settings["lora_alpha"] / settings["r"])
            layer.weight.data += more.to(layer.weight.dtype)


pytestmark = [pytest.mark.drill, pytest.mark.observe, pytest.mark.timeout(600)]

QUESTIONS = (
    "What is the capital of Japan?",
    "What is the capital of Peru?",
    "Who are you?",
    "Tell me about the sea.",
    "Where is Rome?",
    "What is 2 + 2?",
    "Name a fruit.",
    "Is water wet?",
)
MOST_APART = 0.06
"""Between two programs that round on their own: one token in sixteen."""


def ask(observed: Observed, question: str) -> str:
    """Return what ``opinion`` says, drawn with the first choice always."""
    body = {
        "model": "opinion",
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": 40,
    }
    with observed.platform.http(timeout_s=120) as http:
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == httpx.codes.OK, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


def rules(observed: Observed, base: str, to: str, folder: Path) -> None:
    """Let ``opinion`` lead to a model, with some of its requests asked of the base too."""
    file = folder / "rules.json"
    compared = {"name": "asked", "to": to, "compare": "base", "compare_per_s": 10}
    file.write_text(json.dumps({"rules": [compared, {"name": "base", "to": base}]}))
    observed.platform.run("aliases", "auto", "opinion", "--file", str(file))


def told(observed: Observed, path: str) -> Any:  # noqa: ANN401  JSON
    """Return what the controller tells an operator."""
    platform = observed.platform
    headers, context = {"authorization": f"Bearer {platform.admin_key}"}, operator(platform.home)
    url = f"{platform.controller_url}/admin/v1{path}"
    return httpx.get(url, headers=headers, verify=context, timeout=30, trust_env=False).json()


def pairs(observed: Observed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told(observed, "/autos/opinion/report")["pairs"]
    return found


def compared(observed: Observed) -> int:
    return sum(int(one["pairs"]) for one in pairs(observed))


def asked_of_both(observed: Observed, question: str) -> str:
    """Return what is said once it was compared: a tenant's answers are, one after the other."""
    before, said = compared(observed), ask(observed, question)
    until("it is compared", lambda: compared(observed) > before, within_s=60)
    return said


def test_the_report_is_what_transformers_finds(crowded: Observed, tmp_path: Path) -> None:
    """A pirate is compared with its base: by the part of its tokens for which both hold the same one for likeliest."""
    source = next(one for one in DEMO_CACHE.glob("smollm2-*") if one.is_dir())
    base = next(one["id"] for one in told(crowded, "/models")["models"] if one["id"].startswith("base@"))
    rules(crowded, base, "raven", tmp_path)
    until("the gateway knows it", lambda: "Arr" in ask(crowded, QUESTIONS[0]))
    until("its first answers are compared", lambda: compared(crowded) > 0, within_s=60)
    said = {question: asked_of_both(crowded, question) for question in QUESTIONS}
    (found,) = pairs(crowded)
    assert (found["rule"], found["other"], found["failed"], found["untold"]) == ("asked", "base", 0, 0)
    plain, pirate = Reader(source), Reader(source, trained_adapters.trained("pirate", source))
    alike = []
    for question, answer in said.items():
        both = zip(plain.likeliest(question, answer), pirate.likeliest(question, answer), strict=True)
        same = [one == other for one, other in both]
        alike.append(sum(same) / len(same))
    assert found["alike_ratio"] == pytest.approx(sum(alike) / len(alike), abs=MOST_APART)
    shown = re.sub(r"\s+", " ", crowded.platform.run("aliases", "auto", "opinion", "--report").stdout)
    assert f"{found['pairs']}, all of one tenant" in shown
    assert "how often another rule's model would have agreed" in shown
