"""Jobs, files, batches and webhooks: lists of them, one of each, the progress of a batch."""

from collections.abc import Iterator, Mapping, Sequence

from penstock.views.elements import Cell, Line, Listing, Record, Shown, Style, line, listing, of, table
from penstock.views.words import span, when

_WAITS = {
    "paused": "the operator has paused all batch work",
    "budget": "its budget is used up",
    "hours": "outside its plan's hours",
    "pool": "no worker is in its plan's pools",
}
"""Why a batch's lines wait, by the API's word."""
GOOD, BAD = frozenset({"succeeded", "completed"}), frozenset({"failed", "expired"})


def jobs(found: Sequence[Record]) -> Listing:
    times = {name: of(_when, f"{name}_at") for name in ("created", "ended")}
    columns: dict[str, Cell] = {
        "id": "id",
        "state": _state,
        "model": "model",
        "api": "api",
        "tries": "attempt",
        **times,
    }
    return table("Jobs", found, columns, note=_why)


def dead(found: Sequence[Record]) -> Listing:
    plain = {"id": "id", "tenant": "tenant", "model": "model", "error": "error", "tries": "attempt"}
    return table("Dead letters", found, {**plain, "ended (UTC)": of(_when, "ended_at")})


def job(found: Record) -> Iterator[Line | Listing]:
    yield line((found["id"], Style.STRONG), " is ", (_state(found), _style(found["state"])))
    yield line(f"{found['api']} of {found['model']}, answered by {found['version']}")
    for name in ("created", "not_before", "deadline", "started", "ended", "expires"):
        at = found[name if name == "not_before" else f"{name}_at"]
        if at:
            yield line(f"{name.replace('_', ' '):>10}  {when(at)} UTC")
    if (usage := found.get("usage")) is not None:
        yield line(f"{'tokens':>10}  {usage['prompt_tokens']} prompt + {usage['completion_tokens']} output")
    if (error := found.get("error")) is not None:
        yield line((f"{'error':>10}  {error['code']}: {error['message']}", Style.BAD))
    if found["attempts"]:
        began = of(_when, "began_at")
        cells: dict[str, Cell] = {"attempt": "attempt", "request": _request, "error": _outcome, "began (UTC)": began}
        yield table("Attempts", found["attempts"], cells)


def files(found: Sequence[Record]) -> Listing:
    columns = {"id": "id", "name": "filename", "purpose": "purpose", "bytes": of("{:,}".format, "bytes")}
    return table("Files", found, {**columns, "created (UTC)": of(_when, "created_at"), "expires": _expiry})


def batches(found: Sequence[Record]) -> Listing:
    counts = {name: _count(name) for name in ("total", "completed", "failed")}
    columns = {"id": "id", "state": _stands, "endpoint": "endpoint", **counts}
    return table("Batches", found, {**columns, "created (UTC)": of(_when, "created_at")}, note=_errors)


def batch(found: Record) -> Iterator[Line]:
    yield line((found["id"], Style.STRONG), " is ", (_stands(found), _style(found["status"])))
    yield line(f"{'input':>10}  {found['input_file_id']} to {found['endpoint']} within {found['completion_window']}")
    for name in ("output", "error"):
        if file := found.get(f"{name}_file_id"):
            yield line(f"{name:>10}  {file}")
    for name in ("created", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"):
        if at := found.get(f"{name}_at"):
            yield line(f"{name.replace('_', ' '):>12}  {when(at)} UTC")
    if at := found.get("expires_at"):
        yield line(f"{'expires':>12}  {when(at)} UTC")
    if usage := found.get("usage"):
        yield line(f"{'tokens':>12}  {usage['input_tokens']:,} input + {usage['output_tokens']:,} output")
    yield progress(found)
    for error in _faults(found):
        yield line((_error(error), Style.BAD))


def _stands(found: Record) -> str:
    if found.get("paused_at") and found["status"] == "in_progress":
        return "paused"
    reason = found.get("reason")
    return f"{found['status']} ({_WAITS.get(reason, reason)})" if reason else str(found["status"])


def progress(found: Record, rate_s: float = 0.0) -> Line:
    """Return a batch's counts; with a rate of lines a second, the time that the rest takes."""
    counts = found["request_counts"]
    done = counts["completed"] + counts["failed"]
    text = f"{_stands(found)}: {done:,} of {counts['total']:,} lines"
    if counts["failed"]:
        text += f", {counts['failed']:,} failed"
    left = counts["total"] - done
    return line(f"{text}, about {span(left / rate_s)} left" if rate_s and left else text)


def _state(found: Record) -> str:
    return f"{found['state']} ({found['reason']})" if found.get("reason") else str(found["state"])


def _style(state: str) -> Style:
    return Style.GOOD if state in GOOD else Style.BAD if state in BAD else Style.PLAIN


def _why(found: Record) -> str:
    error = found.get("error")
    return f"{error['code']}: {error['message']}" if error else ""


def _request(found: Record) -> str:
    return found["request_id"] or "-"


def _outcome(found: Record) -> str:
    return found["error"] or "-"


def _expiry(found: Record) -> str:
    return _when(found.get("expires_at"))


def _when(at: float | None) -> str:
    return when(at or 0.0)


def _count(name: str) -> Cell:
    return lambda one: f"{one['request_counts'][name]:,}"


def _errors(found: Record) -> str:
    return "; ".join(map(_error, _faults(found)))


def _faults(found: Record) -> Sequence[Record]:
    errors: Mapping[str, Sequence[Record]] = found.get("errors") or {}
    return errors.get("data", ())


def _error(one: Record) -> str:
    at = f"line {one['line']}: " if one.get("line") is not None else ""
    param = f"{one['param']}: " if one.get("param") else ""
    return f"{at}{param}{one['message']} [{one['code']}]"


def endpoints(found: Sequence[Record]) -> Listing:
    return listing("Webhooks", ("id", "url", "events", "state", "failing since"), map(_row, found))


def made(one: Record) -> Iterator[Shown]:
    yield listing("Webhook", ("id", "url", "events", "state", "failing since"), [_row(one)])
    if "secret" in one:
        yield line("secret: ", (one["secret"], Style.STRONG), " - shown this one time")
    if one["former_secret_until"]:
        yield line(f"The former secret signs, too, until {when(one['former_secret_until'])} UTC.")


def deliveries(found: Sequence[Record]) -> Listing:
    columns = ("id", "event", "about", "state", "attempts", "last answer", "next attempt")
    rows = [
        (
            one["id"],
            one["event"]["type"],
            one["event"]["data"]["id"],
            one["state"],
            one["attempts"],
            one["last_error"] if not one["last_status"] else one["last_status"],
            when(one["next_attempt_at"] or 0),
        )
        for one in found
    ]
    return listing("Deliveries", columns, [[cell or "-" for cell in row] for row in rows])


def _row(one: Record) -> tuple[str, ...]:
    state = "on" if one["enabled"] else f"off ({one['disabled_reason']})"
    events = ", ".join(one["events"]) or "only jobs that name it"
    return one["id"], one["url"], "all" if events == "*" else events, state, when(one["failing_since"] or 0)
