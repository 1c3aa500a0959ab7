"""Program: convert the toxicity model of `alt-profanity-check` to safetensors, and compare both on the same texts.

    python -m scripts.toxicity FILE.safetensors [TEXTS.tsv]

The model comes as pickles of scikit-learn's objects. They are opened in a process and an environment of their own, made
from a lock with hashes and thrown away; what ships has numbers and words alone.
"""

import importlib
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements/toxicity.lock"
_INSTALL = ("-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:")
_MOST_S = 600


class Original(NamedTuple):
    """The converted file's bytes, and the original's scores of the texts."""

    converted: bytes
    scores: list[float]


def original(texts: Sequence[str]) -> Original:
    with tempfile.TemporaryDirectory(prefix="toxicity-") as name:
        folder = Path(name)
        venv.create(folder, with_pip=True)
        python = str(folder / "bin/python")
        subprocess.run([python, *_INSTALL, "--requirement", str(LOCK)], check=True, timeout=_MOST_S)
        inside = [python, "-I", __file__, "--inside", str(folder / "out")]
        told = subprocess.run(
            inside, input=json.dumps(texts).encode(), stdout=subprocess.PIPE, check=True, timeout=_MOST_S
        )
        return Original((folder / "out").read_bytes(), json.loads(told.stdout))


def _inside(out: Path) -> None:
    """Run in the other environment: it has scikit-learn, and not this project."""
    package: Any = importlib.import_module("profanity_check.profanity_check")
    metadata: Any = importlib.import_module("importlib.metadata")
    out.write_bytes(_safetensors(package.vectorizer, package.model, metadata.distribution("alt-profanity-check")))
    texts = json.loads(sys.stdin.read())
    print(json.dumps([float(score) for score in package.predict_prob(texts)] if texts else []))


def _safetensors(vectorizer: Any, model: Any, wheel: Any) -> bytes:  # noqa: ANN401 - scikit-learn's
    """Fold each machine's calibration into its weights: its probability is 1 / (1 + exp(weights · x + bias))."""
    numpy: Any = importlib.import_module("numpy")
    words = sorted(vectorizer.vocabulary_, key=vectorizer.vocabulary_.get)
    machines = [(one.estimator, one.calibrators[0]) for one in model.calibrated_classifiers_]
    weights = numpy.stack([one.coef_[0] * scale.a_ for one, scale in machines], axis=1)
    biases = numpy.array([one.intercept_[0] * scale.a_ + scale.b_ for one, scale in machines])
    tensors = {
        "words": numpy.frombuffer("\n".join(words).encode(), dtype=numpy.uint8),
        "rarity": vectorizer.idf_.astype("<f4"),
        "weights": weights.astype("<f4"),
        "biases": biases.astype("<f4"),
    }
    licence = next(path for path in wheel.files if path.name == "LICENSE").read_text()
    head: dict[str, object] = {
        "__metadata__": {"source": f"{wheel.metadata['name']} {wheel.version}", "licence": licence}
    }
    at = 0
    for name, tensor in tensors.items():
        kind = "U8" if name == "words" else "F32"
        head[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(tensor.tobytes() for tensor in tensors.values())


def main(file: Path, texts: Path | None) -> None:
    lines = [] if texts is None else [line.partition("\t")[2] for line in texts.read_text().splitlines()]
    made = original(lines)
    file.write_bytes(made.converted)
    print(f"{file}: {len(made.converted):,} bytes")
    if texts is not None:
        texts.write_text("".join(f"{score:.6f}\t{line}\n" for score, line in zip(made.scores, lines, strict=True)))


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        _inside(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None)
