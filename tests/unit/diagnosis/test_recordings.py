"""Recordings of real runs: each says where it comes from, and is judged today as it was found then.

They were made by `tests/integration/diagnose/test_live.py` on a real engine (SmolLM2 on two cores), by the command's
own `--record`; a file's name is its case.
"""

from pathlib import Path

import pytest

from penstock.apps import slos
from penstock.diagnosis.measure import snapshot_of
from penstock.diagnosis.recording import of_json
from penstock.diagnosis.verdict import Diagnosis, judge

FILES = sorted((Path(__file__).parent / "recordings").glob("*.json"))


def verdict_of(file: Path) -> Diagnosis:
    return judge(snapshot_of(of_json(file.read_text()), slos.load().values()))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recording_of_a_real_run_is_named(file: Path) -> None:
    """What was really measured while one cause was at work is diagnosed as that cause."""
    verdict = verdict_of(file)
    assert (verdict.bottleneck or verdict.word) == file.stem


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recording_says_where_it_comes_from(file: Path) -> None:
    """Whoever reads a recording learns of what, and from how long a stretch of time, it is."""
    recording = of_json(file.read_text())
    assert recording.says
    assert recording.seconds > 1


def test_there_are_recordings() -> None:
    """Real runs are among the proofs."""
    assert FILES
