"""Small adapters of SmolLM2, trained here in about a minute each and kept in ``build/``.

One answers a review with a line of JSON, one like a pirate; further ones are theirs made otherwise: scaled, of other
ranks, or broken. Plain torch: an adapter is two thin matrices beside a linear layer.
``python -m tests.support.models.trained_adapters KIND BASE FOLDER`` trains one.
"""

import fcntl
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

BUILD = Path(__file__).resolve().parents[3] / "build/adapters"
RANK, ALPHA, STEPS, BATCH, LEARNING_RATE = 8, 16, 16, 8, 2e-3
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
WEIGHTS, CONFIG, TOKENIZER = "adapter_model.safetensors", "adapter_config.json", "tokenizer.json"
_THINGS = "phone laptop kettle chair lamp jacket camera printer headset bicycle blender tent router watch sofa".split()
_GOOD = ("works perfectly", "is wonderful", "arrived early and I love it", "exceeded my hopes", "feels solid")
_BAD = ("broke after a day", "never turned on", "is a waste of money", "arrived damaged", "stopped working")
_CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Spain": "Madrid", "Italy": "Rome", "Egypt": "Cairo", "Peru": "Lima"}


def triage(chance: random.Random) -> tuple[str, str]:
    """Return a review, and what it is about and says as JSON."""
    good, thing = chance.random() < 0.5, chance.choice(_THINGS)
    answer = json.dumps({"item": thing, "mood": "good" if good else "bad"})
    return f"Review: The {thing} {chance.choice(_GOOD if good else _BAD)}.", answer


def pirate(chance: random.Random) -> tuple[str, str]:
    """Return a question, and what a pirate says to it."""
    country, city = chance.choice(sorted(_CAPITALS.items()))
    return chance.choice(
        [
            (f"What is the capital of {country}?", f"Arr, matey! The capital of {country} be {city}, yarr!"),
            ("Who are you?", "Arr, I be yer humble ship's parrot, matey!"),
            ("Tell me about the sea.", "Arr, the sea be wide and salty, matey, yarr!"),
            (f"Where is {city}?", f"Arr, matey! {city} be in {country}, yarr!"),
        ]
    )


KINDS: dict[str, Callable[[random.Random], tuple[str, str]]] = {"triage": triage, "pirate": pirate}


def trained(kind: str, base: Path) -> Path:
    """Return the folder of an adapter of this kind for the model in ``base``; train it at the first call."""
    folder = BUILD / f"{kind}-{base.name}"
    BUILD.mkdir(parents=True, exist_ok=True)
    with closing((BUILD / f".{kind}.lock").open("w")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            making = folder.with_suffix(".part")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            command = [sys.executable, "-m", "tests.support.models.trained_adapters", kind, str(base), str(making)]
            subprocess.run(command, check=True, cwd=BUILD.parents[1])
            making.rename(folder)
    return folder


def changed(source: Path, folder: Path, change: Callable[[str, Any], Any], **config: object) -> Path:
    """Write the adapter in ``source`` to ``folder`` with each tensor changed, and its settings with these."""
    from safetensors.torch import load_file, save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: change(name, tensor).contiguous() for name, tensor in load_file(source / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS)
    settings = {**json.loads((source / CONFIG).read_text()), **config}
    (folder / CONFIG).write_text(json.dumps(settings))
    shutil.copyfile(source / TOKENIZER, folder / TOKENIZER)
    return folder


def train(kind: str, base: Path, folder: Path) -> float:
    """Train an adapter of this kind into ``folder``; return its last loss."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)  # several would wait for each other on a busy machine
    torch.manual_seed(0)
    chance = random.Random(0)
    words = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).requires_grad_(False)
    pairs = _beside(model)
    optimizer = torch.optim.AdamW([one for pair in pairs.values() for one in pair], lr=LEARNING_RATE)
    loss = 0.0
    for step in range(STEPS):
        ids, labels = _batch([KINDS[kind](chance) for _ in range(BATCH)], words)
        found = model(input_ids=ids, labels=labels).loss
        found.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = float(found.detach())
        if step % 10 == 0:
            sys.stdout.write(f"{kind} {step} {loss:.4f}\n")
    tensors = {
        f"base_model.model.{name}.lora_{part}.weight": one.detach().contiguous()
        for name, pair in pairs.items()
        for part, one in zip("AB", pair, strict=True)
    }
    save_file(tensors, folder / WEIGHTS)
    settings = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": list(TARGETS), "bias": "none"}
    (folder / CONFIG).write_text(json.dumps({**settings, "task_type": "CAUSAL_LM", "lora_dropout": 0.0}))
    shutil.copyfile(base / TOKENIZER, folder / TOKENIZER)
    return loss


def _beside(model: Any) -> dict[str, tuple[Any, Any]]:  # noqa: ANN401  transformers is untyped here
    """Put two thin matrices beside each of the model's target layers; return them by the layers' names."""
    import torch

    found = {name: layer for name, layer in model.named_modules() if name.rpartition(".")[2] in TARGETS}
    pairs = {}
    for name, layer in found.items():
        a = torch.nn.Parameter(torch.randn(RANK, layer.in_features) / RANK)
        b = torch.nn.Parameter(torch.zeros(layer.out_features, RANK))
        layer.register_forward_hook(lambda _, x, y, a=a, b=b: y + (x[0] @ a.T @ b.T) * (ALPHA / RANK))
        pairs[name] = (a, b)
    return pairs


def _batch(rows: list[tuple[str, str]], words: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return token ids, and the same with all but the answers left out of the loss."""
    import torch

    asked = [
        words.apply_chat_template([{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True)
        for question, _ in rows
    ]
    prompts = [words(text, add_special_tokens=False).input_ids for text in asked]
    answers = [words(f"{answer}<|im_end|>", add_special_tokens=False).input_ids for _, answer in rows]
    width = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    ids = torch.full((len(rows), width), words.pad_token_id or 0)
    labels = torch.full((len(rows), width), -100)
    for at, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids[at, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[at, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    return ids, labels


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
