"""Reads WordNet's database: a sense's definition, and the topic its lexicographers filed it under.

A sense may point to its domain (``;c`` in the files, "domain of synset, topic" in the manual page ``wninput``): "a
score of two strokes under par on a hole" to golf. The definition is our text, the domain our label. Trade-off: domains
are mapped to topics by hand; an unmapped domain is left out, not guessed.
"""

import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.domain.errors import ArtifactRefused

TOPICS: Mapping[str, tuple[str, ...]] = {
    "arts": ("art", "architecture", "photography", "performing_arts", "poetry", "literature", "dance", "drama"),
    "astronomy": ("astronomy", "cosmology"),
    "biology": ("biology", "botany", "genetics", "zoology", "plant", "animal", "ecology", "mammal", "microbiology"),
    "business": ("commerce", "commercial_enterprise", "economics", "finance", "stock_exchange", "corporation"),
    "chemistry": ("chemistry", "biochemistry", "physical_chemistry"),
    "computing": ("computer_science", "computer"),
    "cooking": ("cooking",),
    "earth": ("geology", "meteorology", "mineralogy", "geography", "oceanography"),
    "language": ("linguistics", "grammar", "phonetics"),
    "law": ("law", "crime", "criminal_law", "civil_law"),
    "mathematics": ("mathematics", "statistics", "logic", "geometry", "arithmetic"),
    "medicine": (
        "medicine", "anatomy", "physiology", "pathology", "psychiatry", "surgery", "dentistry", "obstetrics",
        "immunology", "ophthalmology", "neurology", "pharmacology",
    ),
    "military": ("military", "navy", "war"),
    "music": ("music", "singing"),
    "mythology": ("Greek_mythology", "Roman_mythology", "Norse_mythology", "classical_mythology", "mythology"),
    "physics": ("physics", "electronics", "electricity", "optics", "particle_physics", "acoustics", "thermodynamics"),
    "psychology": ("psychology", "psychoanalysis", "psychophysics"),
    "religion": (
        "religion", "Roman_Catholic", "Old_Testament", "New_Testament", "Judaism", "Christianity", "Hinduism", "Islam",
        "theology", "Buddhism", "Bible", "Sikhism",
    ),
    "sport": (
        "sport", "baseball", "golf", "football", "American_football", "basketball", "boxing", "tennis", "cricket",
        "soccer", "ice_hockey", "badminton", "rugby", "softball", "squash", "chess", "card_game", "bridge",
    ),
    "transport": ("seafaring", "air_travel", "ship", "driving", "airplane", "aircraft", "car", "boat"),
}  # fmt: skip
"""The domains of each topic, by the first word of their own sense."""
_TOPIC_OF = {domain: topic for topic, domains in TOPICS.items() for domain in domains}
_FILES = {"n": "data.noun", "v": "data.verb", "a": "data.adj", "r": "data.adv"}
_SATELLITE, _DOMAIN = "s", ";c"
_USAGE = re.compile(r'; *".*')
_FILED = re.compile(r"^(?:\([^)]*\) *)+")
"""A definition may begin with its domain in brackets, which would tell the answer."""
_Place = tuple[str, str]
"""Which file, and where in it."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Example:
    text: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sense:
    word: str
    definition: str
    domains: tuple[_Place, ...]


def read(archive: Path) -> list[Example]:
    """Return the definitions with one topic each, in a fixed order; raises ``ArtifactRefused``."""
    senses = dict(_senses(archive))
    topics: dict[str, set[str]] = {}
    for sense in senses.values():
        found = {_TOPIC_OF.get(senses[place].word, "") for place in sense.domains}
        topics.setdefault(_plain(sense.definition), set()).update(found)
    return sorted(
        Example(text=text, topic=topic)
        for text, found in topics.items()
        for topic in found
        if text and topic and len(found) == 1
    )


def _senses(archive: Path) -> Iterator[tuple[_Place, _Sense]]:
    try:
        with tarfile.open(archive) as files:
            for kind, name in _FILES.items():
                member = files.extractfile(f"package/dict/{name}")
                if member is None:  # no plain file
                    raise KeyError(name)
                for line in member.read().decode().splitlines():
                    if not line.startswith("  "):  # the licence
                        yield (kind, line[:8]), _sense(line)
    except (KeyError, OSError, tarfile.TarError, ValueError, IndexError) as error:
        raise ArtifactRefused(f"{archive.name} does not hold WordNet's files") from error


def _sense(line: str) -> _Sense:
    """Parse a line: offset, file, kind, word count (hexadecimal), words, pointer count, pointers | gloss."""
    head, _, gloss = line.partition(" | ")
    fields = head.split()
    at = 4 + 2 * int(fields[3], 16)
    pointers = [fields[i : i + 4] for i in range(at + 1, at + 1 + 4 * int(fields[at]), 4)]
    domains = [(kind.replace(_SATELLITE, "a"), place) for sign, place, kind, _ in pointers if sign == _DOMAIN]
    return _Sense(word=fields[4], definition=gloss, domains=tuple(domains))


def _plain(gloss: str) -> str:
    """Return a gloss without quoted usages and domain prefix."""
    return _FILED.sub("", _USAGE.sub("", gloss.strip())).strip(" ;")
