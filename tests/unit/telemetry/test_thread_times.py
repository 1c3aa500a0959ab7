"""What the event loop's thread did with its time, by the kernel's account."""

import time
from pathlib import Path

import pytest

from penstock.telemetry import thread_times


def test_computing_is_told_apart_from_resting() -> None:
    """Work moves the time that was computed by what the thread's own clock says, and a rest does not."""
    clock, before = time.thread_time(), thread_times.of_this_thread()["computing"]
    sum(range(200_000))
    after, spent = thread_times.of_this_thread()["computing"], time.thread_time() - clock
    assert 0 < after - before <= spent


@pytest.mark.parametrize("text", [None, "", "123", "1 x 3"])
def test_what_the_kernel_does_not_tell_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Without the kernel's account of waiting there is no time starved, rather than one of 0."""
    file = tmp_path / "schedstat"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(thread_times, "_SCHEDSTAT", file)
    assert set(thread_times.of_this_thread()) == {"computing"}
    file.write_text("1000000000 2500000000 7\n")
    assert thread_times.of_this_thread()["starved"] == 2.5
