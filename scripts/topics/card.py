"""The head's model card: data, licence, split, figures, limits of use. Pure text."""

from collections import Counter
from dataclasses import dataclass

from scripts.topics.head import PENALTY, SLICE, Measured, Split

LICENCE = """\
WordNet 3.1 Copyright 2011 by Princeton University. All rights reserved.

Permission to use, copy, modify and distribute this software and database and its documentation for any purpose and
without fee or royalty is hereby granted, provided that you agree to comply with the following copyright notice and
statements, including the disclaimer, and that the same appear on ALL copies of the software, database and
documentation, including modifications that you make for internal use or for distribution.

THIS SOFTWARE AND DATABASE IS PROVIDED "AS IS" AND PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR WARRANTIES, EXPRESS
OR IMPLIED. BY WAY OF EXAMPLE, BUT NOT LIMITATION, PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR WARRANTIES OF
MERCHANTABILITY OR FITNESS FOR ANY PARTICULAR PURPOSE OR THAT THE USE OF THE LICENSED SOFTWARE, DATABASE OR
DOCUMENTATION WILL NOT INFRINGE ANY THIRD PARTY PATENTS, COPYRIGHTS, TRADEMARKS OR OTHER RIGHTS.

The name of Princeton University or Princeton may not be used in advertising or publicity pertaining to distribution of
the software and/or database. Title to copyright in this software, database and any associated documentation shall at
all times remain with Princeton University and LICENSEE agrees to preserve same."""
_CARD = """\
---
license: other
license_name: Apache-2.0 AND LicenseRef-WordNet-3.1
language: en
base_model: sentence-transformers/all-MiniLM-L6-v2
pipeline_tag: text-classification
accuracy: {accuracy:.4f}
sample_accuracy: {sample_accuracy:.4f}
macro_f1: {macro_f1:.4f}
majority_baseline: {majority:.4f}
---

# Topics

Tells which of {classes} topics an English text is about.
A linear head, trained here, on the vectors of all-MiniLM-L6-v2, which is left as it is.

## Data

WordNet 3.1, from the npm package `{package}` (SHA-256 `{sha256}`).
Its lexicographers filed {texts:,} senses under the domain that they are terms of; domains are gathered into topics by a
table (`training/wordnet.py`).
A text is a sense's definition alone, without the word that is defined, without usages, and without the domain's name in
brackets, which would tell the answer.
Definitions that belong to two topics, and domains that are not in the table, are left out.

## Training

Multinomial logistic regression with an L2 penalty of {penalty:g}, chosen by cross-validation on the training texts.
A text is held out by its own SHA-256, one in five, so that no text is on both sides.
The optimum is one: the same texts give the same bytes on the same machine; on another the last digits may differ.
`make topics` trains it anew.

## Numbers

On the {held_out:,} texts held out: accuracy {accuracy:.1%}, macro F1 {macro_f1:.3f}.
Always telling the most frequent topic has an accuracy of {majority:.1%}.
On the {sample:,} of them that the tests keep (one in {one_in}): accuracy {sample_accuracy:.1%}.

| topic | trained on | held out | F1 |
|---|---|---|---|
{rows}

## Limits

* It has no answer for "none of these": whatever is asked gets one of the topics.
  Look at the score, and take a low one for "I don't know".
* It learnt from definitions in a dictionary's English.
  Questions and news work by way of the encoder, other languages hardly, and the numbers above say nothing of either.
* Topics overlap (medicine with biology, physics with chemistry), and are as their domains were filled:
  law is American law, military the army of WordNet's time, religion mostly Christian.
* Texts beyond 256 tokens are refused.
* It is made to show the way from training to serving: decide nothing about people with it.

## Licence

The encoder is under Apache-2.0. The head is made from WordNet, whose licence says:

{licence}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    package: str
    sha256: str


def card(origin: Origin, split: Split, measured: Measured, sample: Measured) -> str:
    """Return the card. ``sample`` holds the head's figures on the tests' slice."""
    before, after = (Counter(one.topic for one in some) for some in (split.trained, split.held_out))
    topics = sorted(before)
    rows = (f"| {one} | {before[one]} | {after[one]} | {f1:.2f} |" for one, f1 in zip(topics, measured.f1, strict=True))
    return _CARD.format(
        accuracy=measured.accuracy,
        macro_f1=measured.macro_f1,
        majority=measured.majority,
        classes=len(topics),
        package=origin.package,
        sha256=origin.sha256,
        texts=len(split.trained) + len(split.held_out),
        penalty=PENALTY,
        held_out=len(split.held_out),
        sample=int(sample.confusion.sum()),
        one_in=SLICE,
        sample_accuracy=sample.accuracy,
        rows="\n".join(rows),
        licence=LICENCE,
    )
