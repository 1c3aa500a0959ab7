"""Program: convert a GGUF file to a Hugging Face folder with safetensors weights.

    python -m penstock.worker.engines.gguf MODEL.gguf FOLDER

Quantised weights are expanded to bfloat16, which the CPU kernels need; a version's bytes must not depend on its device.
"""

import json
import sys
from pathlib import Path


def main(source: Path, folder: Path) -> None:
    _say("loading libraries")
    import torch
    import transformers

    torch.manual_seed(0)
    torch.set_num_threads(min(4, torch.get_num_threads()))
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name, "local_files_only": True}
    _say("tokenizer")
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    _say("weights")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        **where, dtype=torch.bfloat16, quantization_config=transformers.GgufConfig(dequantize=True)
    )
    _say("writing")
    folder.mkdir(parents=True)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    _forget_how_it_was_loaded(folder / "tokenizer_config.json")


def _forget_how_it_was_loaded(path: Path) -> None:
    """Settings of this conversion would change the version's digest."""
    settings = json.loads(path.read_text())
    for name in ("is_local", "local_files_only", "name_or_path"):
        settings.pop(name, None)
    path.write_text(json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def _say(step: str) -> None:
    print(f"step: {step}", flush=True)  # noqa: T201  a program's output, read by packaging/convert.py


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
