"""Names of ImageNet's thousand classes, from a wheel.

The names are WordNet's, free to use and copy; the wheel is timm's (Apache-2.0).
"""

import zipfile
from pathlib import Path

from penstock.domain.errors import ArtifactRefused

CLASSES = 1000
_SYNSETS = "timm/data/_info/imagenet_synsets.txt"
_LEMMAS = "timm/data/_info/imagenet_synset_to_lemma.txt"


def labels(wheel: Path) -> str:
    """Return the first name of each class, in the order of the networks' outputs."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            synsets, lemmas = (archive.read(name).decode().splitlines() for name in (_SYNSETS, _LEMMAS))
    except (KeyError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise ArtifactRefused(f"{wheel.name} does not name the classes of ImageNet") from error
    words = dict(line.split("\t", 1) for line in lemmas if "\t" in line)
    found = [words[one].partition(",")[0].strip() for one in synsets if one in words]
    if len(found) != CLASSES:
        raise ArtifactRefused(f"{wheel.name} names {len(found)} classes of ImageNet instead of {CLASSES}")
    return "".join(f"{one}\n" for one in found)
