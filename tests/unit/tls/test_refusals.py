"""Strangers are told of, and can't fill the log."""

from structlog.testing import capture_logs

from penstock.tls.handshake import LINE_EVERY_S, LINES_AT_ONCE, Refusals
from tests.support.clock import ManualClock


def test_a_flood_of_strangers_costs_few_lines() -> None:
    """Ten thousand refused peers in a second leave ten lines, and the next line says how many had none."""
    clock = ManualClock()
    refusals = Refusals(clock)
    with capture_logs() as logs:
        for _ in range(10_000):
            refusals.tell("it shows no certificate: give it one")
            clock.advance(1e-4)
        clock.advance(LINE_EVERY_S)
        refusals.tell("it speaks plain HTTP: use https://", "10.0.0.7")
    assert [one["event"] for one in logs] == ["peer_refused"] * (LINES_AT_ONCE + 1)
    assert logs[-1]["count"] == 10_000 - LINES_AT_ONCE
    assert (logs[-1]["reason"], logs[-1]["address"]) == ("it speaks plain HTTP: use https://", "10.0.0.7")


def test_who_comes_now_and_then_is_always_told() -> None:
    """A stranger every few seconds has a line each, with nothing left out."""
    clock = ManualClock()
    refusals = Refusals(clock)
    with capture_logs() as logs:
        for _ in range(100):
            refusals.tell("its certificate has expired: have it renewed")
            clock.advance(LINE_EVERY_S)
    assert len(logs) == 100
    assert not any("count" in one for one in logs)
