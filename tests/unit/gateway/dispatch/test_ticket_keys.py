"""Which key a ticket is sealed with while the platform's key is exchanged."""

from penstock.domain.ids import WorkerId
from penstock.domain.tenancy.keys import key_mark, worker_secret
from penstock.gateway.dispatch.ticket_keys import TicketKeys

OLD, NEW = b"o" * 32, b"n" * 32
EARLY, LATE = WorkerId("early"), WorkerId("late")


def test_a_worker_gets_tickets_under_the_key_that_it_was_given() -> None:
    """A worker that runs since before the exchange is served as one that was started after it."""
    keys = TicketKeys((OLD,))
    assert keys(EARLY) == worker_secret(OLD, EARLY)
    keys.exchange((NEW, OLD))
    keys.learn({EARLY: key_mark(worker_secret(OLD, EARLY)), LATE: key_mark(worker_secret(NEW, LATE))})
    assert (keys(EARLY), keys(LATE)) == (worker_secret(OLD, EARLY), worker_secret(NEW, LATE))


def test_a_worker_of_the_same_name_that_was_started_again_gets_the_new_key() -> None:
    """What was at hand for a name is not used for its successor."""
    keys = TicketKeys((NEW, OLD))
    keys.learn({EARLY: key_mark(worker_secret(OLD, EARLY))})
    assert keys(EARLY) == worker_secret(OLD, EARLY)
    keys.learn({EARLY: key_mark(worker_secret(NEW, EARLY))})
    assert keys(EARLY) == worker_secret(NEW, EARLY)


def test_a_worker_that_tells_no_mark_gets_the_newest() -> None:
    """An unknown worker, or one from before there were marks, is taken for one of the newest key."""
    keys = TicketKeys((NEW, OLD))
    assert keys(EARLY) == worker_secret(NEW, EARLY)
    assert keys.is_changing
    assert not TicketKeys((NEW,)).is_changing
