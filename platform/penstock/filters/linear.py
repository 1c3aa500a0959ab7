"""A linear classifier of texts, read from safetensors and scored without a library: microseconds a sentence. Pure.

Words are weighed by their rarity (TF-IDF), and the mean of several calibrated machines is the score, from 0 to 1.
Trade-off: it knows words of its vocabulary alone, not their order; other spellings pass.
"""

import re
import struct
from collections import Counter
from math import exp, sqrt

from penstock.formats.safetensors_header import tensors_of

_WORD = re.compile(r"\b\w\w+\b")


class Linear:
    """Tensors ``words`` (lines of UTF-8), ``rarity``, ``weights`` (by word and machine) and ``biases``."""

    __slots__ = ("_biases", "_of_word")

    def __init__(self, data: bytes) -> None:
        begin, stored = tensors_of(lambda first, count: data[first : first + count], len(data), "a classifier")
        tensors = {name: data[begin + one.begin : begin + one.end] for name, one in stored.items()}
        self._biases = _numbers(tensors["biases"])
        words, rarity = tensors["words"].decode().split("\n"), _numbers(tensors["rarity"])
        weights, machines = _numbers(tensors["weights"]), len(self._biases)
        self._of_word = {
            word: (rarity[at] ** 2, [rarity[at] * one for one in weights[at * machines : (at + 1) * machines]])
            for at, word in enumerate(words)
        }

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self._of_word)

    def score(self, text: str) -> float:
        square, sums = 0.0, [0.0] * len(self._biases)
        for word, count in Counter(_WORD.findall(text.lower())).items():
            if (known := self._of_word.get(word)) is not None:
                square += count * count * known[0]
                sums = [one + count * weight for one, weight in zip(sums, known[1], strict=True)]
        length = sqrt(square) or 1.0
        each = (1 / (1 + exp(one / length + bias)) for one, bias in zip(sums, self._biases, strict=True))
        return sum(each) / len(sums)


def _numbers(tensor: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(tensor) // 4}f", tensor)
