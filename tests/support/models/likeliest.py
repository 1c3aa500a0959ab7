"""What a model of a folder holds for the likeliest at each token of an answer: by transformers, on its own."""

import json
from pathlib import Path
from typing import Any


class Reader:
    """SmolLM2 as transformers runs it, with an adapter added to its weights where one is given."""

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
