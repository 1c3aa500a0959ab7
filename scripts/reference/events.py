"""The page of log events: the closed list, in the order of the code."""

from penstock.telemetry.events import EVENTS
from scripts.reference.markdown import code, table, titled

_LEAD = """Each process logs JSON lines; `penstock up` keeps them in `logs/` of the home. Each line has `event`, `level`, `time`,
`service` and the fields of its event; no text of a prompt or answer is ever among them. `penstock logs gateway -e breaker_turned` shows the
last lines of one event. An engine's own log stands beside them, as vLLM writes it."""


def page() -> str:
    """Return the whole page."""
    return (
        titled("Log events", _LEAD)
        + "\n"
        + table(("event", "meaning"), [(code(name), says) for name, says in EVENTS.items()])
    )
