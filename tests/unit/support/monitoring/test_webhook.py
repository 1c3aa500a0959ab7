"""What Alertmanager tells by webhook: read as notices, other alerts left out, strange messages refused in words."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from penstock.slo.windows import Severity
from tests.support.monitoring.webhook import NotUnderstood, notices

MESSAGE: dict[str, Any] = {
    "version": "4",
    "status": "firing",
    "receiver": "rollback",
    "alerts": [
        {
            "status": "firing",
            "fingerprint": "ab12",
            "startsAt": "2026-11-22T18:00:00.5Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "labels": {
                "alertname": "TtftBurn", "severity": "page", "tier": "chat", "objective": "ttft", "window": "1h"
            },
        },
        {"status": "firing", "labels": {"alertname": "LimitsStoreAway", "severity": "page"}},
    ],
}  # fmt: skip


def test_a_message_tells_which_promise_burns_and_since_when() -> None:
    """The rollback learns promise, pace and time; an alert on a cause is none of its business."""
    (notice,) = notices(MESSAGE)
    assert (notice.alert, notice.tier, notice.objective, notice.window) == ("TtftBurn", "chat", "ttft", "1h")
    assert (notice.severity, notice.is_firing, notice.fingerprint) == (Severity.PAGE, True, "ab12")
    assert notice.began_at == 1_795_370_400.5


def test_an_end_is_told_under_the_same_name() -> None:
    """A resolved alert has the fingerprint of its beginning."""
    message = copy.deepcopy(MESSAGE)
    message["alerts"][0]["status"] = "resolved"
    (notice,) = notices(message)
    assert (notice.is_firing, notice.fingerprint) == (False, "ab12")


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.update(version="5"), "format 4 is expected"),
        (lambda m: m.update(alerts={}), "alerts: a list is expected"),
        (lambda m: m["alerts"].append("x"), "alerts: each has labels"),
        (lambda m: m["alerts"][0].pop("fingerprint"), "an alert lacks something that it must have: 'fingerprint'"),
        (lambda m: m["alerts"][0].update(startsAt="soon"), "an alert lacks something"),
        (lambda m: m["alerts"][0]["labels"].update(severity="red"), "an alert lacks something"),
    ],
)
def test_a_strange_message_is_refused_in_words(change: Change, says: str) -> None:
    """Nobody rolls back on a message that was not understood."""
    message = copy.deepcopy(MESSAGE)
    change(message)
    with pytest.raises(NotUnderstood, match=says):
        notices(message)
