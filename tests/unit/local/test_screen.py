"""What a person sees while the platform starts."""

import io
from pathlib import Path

from rich.console import Console

from penstock.domain.command_error import CommandError
from penstock.local.screen import Screen, tail
from tests.support.clock import ManualClock


def test_phases_are_numbered_and_timed(clock: ManualClock) -> None:
    """Without a terminal each phase ends in one plain line with its seconds and what came of it."""
    text = io.StringIO()
    screen = Screen(Console(file=text, width=120), clock, 2)
    with screen.phase("database") as phase:
        phase.note("starting")
        phase.note("starting")
        clock.advance(1.5)
        phase.result("embedded [18]")
    with screen.phase("models"):
        pass
    lines = text.getvalue().splitlines()
    assert lines[0].strip() == "starting"
    assert lines[1].split() == ["✓", "[1/2]", "database", "1.5", "s", "embedded", "[18]"]
    assert lines[2].startswith("✓ [2/2] models")


def test_trouble_shows_the_end_of_the_log_and_the_next_step(clock: ManualClock, tmp_path: Path) -> None:
    """What happened, the log's last lines as they are, where it lies, what to do."""
    log = tmp_path / "gateway-1.log"
    log.write_text("\n".join(f"line {i} [x]" for i in range(40)))
    text = io.StringIO()
    Screen(Console(file=text, width=200), clock, 1).error(CommandError("The gateway died.", do="Mend it.", log=log))
    screen = text.getvalue()
    assert "The gateway died." in screen
    assert "line 39 [x]" in screen
    assert "line 1 [x]" not in screen
    assert str(log) in screen
    assert "→ Mend it." in screen


def test_trouble_shows_lines_of_this_run_alone(clock: ManualClock, tmp_path: Path) -> None:
    """Lines that were there before the start are left out, unless the log was cut meanwhile."""
    log, text = tmp_path / "gateway-1.log", io.StringIO()
    log.write_text("line of the former run\n" * 3)
    screen = Screen(Console(file=text, width=200), clock, 1, tmp_path)
    with log.open("a") as file:
        file.write("line of this run\n")
    screen.error(CommandError("The gateway died.", log=log))
    assert ("this run" in text.getvalue(), "former run" in text.getvalue()) == (True, False)
    log.write_text("line after the cut\n")
    screen.error(CommandError("The gateway died.", log=log))
    assert "after the cut" in text.getvalue()


def test_a_missing_log_has_no_tail(tmp_path: Path) -> None:
    """A process that never wrote a log is no second error."""
    assert tail(tmp_path / "none.log") == []
