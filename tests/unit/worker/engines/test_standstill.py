"""Which sequences stand still: those of strict tenants, for interactive requests, a bounded number of times."""

from penstock.worker.engines.standstill import ABOUT_S, MOST_STOPS, STOP_PART, Standstill, stops_until
from penstock.worker.meter import Stops

READER = ("reader", Stops(is_awaited=True))
LATER = 1000.0


def strict(name: str, until: float = LATER) -> tuple[str, Stops]:
    return name, Stops(until=until)


def test_strict_work_stands_still_while_interactive_requests_are_about() -> None:
    """While one is inside, and for a usual pause after it."""
    still = Standstill()
    assert still.next([strict("a"), strict("b")], 0.0) == frozenset()
    assert still.next([strict("a"), strict("b"), READER], 1.0) == {"a", "b"}
    assert still.next([strict("a"), strict("b")], 1.0 + ABOUT_S - 0.01) == {"a", "b"}
    assert still.next([strict("a"), strict("b")], 1.0 + ABOUT_S) == frozenset()


def test_other_work_never_stands_still() -> None:
    """Interactive requests run, and what came without a mark is not told here."""
    assert Standstill().next([READER, ("c", Stops())], 0.0) == frozenset()


def test_a_request_is_stopped_a_bounded_number_of_times() -> None:
    """Then bursts of others pass it by; one that came later has its own count."""
    still, now = Standstill(), 0.0
    for _ in range(MOST_STOPS):
        assert still.next([strict("a"), READER], now) == {"a"}
        assert still.next([strict("a"), READER], now + 1) == {"a"}, "one stop, however many steps"
        assert still.next([strict("a")], now + 1 + ABOUT_S) == frozenset()
        now += 10
    assert still.next([strict("a"), strict("b"), READER], now) == {"b"}


def test_near_its_deadline_a_request_runs() -> None:
    """In the second part of its time nothing stops it, and what stood still goes on."""
    still = Standstill()
    until = stops_until(100.0, 20.0)
    assert until == 20.0 + STOP_PART * 80.0
    assert still.next([strict("a", until), READER], until - 0.01) == {"a"}
    assert still.next([strict("a", until), READER], until) == frozenset()
    assert stops_until(10.0, 20.0) == 20.0


def test_what_has_left_is_forgotten() -> None:
    """Counts are kept for what is inside: a name that comes again begins anew."""
    still, now = Standstill(), 0.0
    for _ in range(MOST_STOPS):
        still.next([strict("a"), READER], now)
        still.next([strict("a")], now + ABOUT_S)
        now += 10
    assert still.next([strict("a"), READER], now) == frozenset()
    still.next([], now + ABOUT_S)
    assert still.next([strict("a"), READER], now + 10) == {"a"}


def test_one_that_comes_while_others_stand_still_does_too() -> None:
    """It is let in for its prompt's blocks, not for steps."""
    still = Standstill()
    still.next([strict("a"), READER], 0.0)
    assert still.next([strict("a"), strict("b")], 1.0) == {"a", "b"}
