"""The page of errors: the published table, with each error's default message."""

from penstock.domain.errors import BadRequest, Evicted, Failed, PenstockError, Rejected
from penstock.gateway.listener.errors import TABLE, Row
from scripts.reference.markdown import code, table, titled

_LEAD = """An error has the shape of the API that was asked: OpenAI's (`{"error": {…}}`), Anthropic's for `/v1/messages`,
the Open Inference Protocol's for `/v2`, a status of gRPC. Its fields: `message`, `type`, `code`, `param` (the field at
fault), `reason` (the limit that refused), `request_id`, `retryable`, `retry_after` (seconds).

`retryable` means: the same request, sent again, may succeed, and no answer to it exists. `x-should-retry` says the same,
and the official SDKs obey it. `retry-after` and `retry-after-ms` come with it when the wait is known. gRPC's clients
repeat `UNAVAILABLE` by themselves, so it stands only if that is safe.

After the first byte of a stream there is no status any more: the same object comes as the stream's last event."""
_BRANCHES: tuple[tuple[type[PenstockError], str, str], ...] = (
    (BadRequest, "Change the request", "The same request would fail again."),
    (Rejected, "Come back later", "The request was never started and costs nothing."),
    (
        Evicted,
        "Waited and never ran",
        "The request waited at a worker and was removed before it ran; it costs nothing.",
    ),
    (Failed, "May have run", "The request may have run; what was generated is billed. Don't repeat it blindly."),
    (PenstockError, "Operators' errors, and the rest", "From the operators' API and the command line."),
)


def page() -> str:
    """Return the whole page, a section for each branch of the error tree."""
    left = dict(TABLE)
    parts = [titled("Errors", _LEAD)]
    for branch, title, lead in _BRANCHES:
        rows = [_row(kind, left.pop(kind)) for kind in list(left) if issubclass(kind, branch)]
        columns = ("code", "HTTP", "type (OpenAI)", "type (Anthropic)", "gRPC", "retry", "default message")
        parts.append(f"\n## {title}\n\n{lead}\n\n{table(columns, sorted(rows))}")
    return "".join(parts)


def _row(kind: type[PenstockError], row: Row) -> tuple[str, ...]:
    said = (code(kind.code), str(row.status), code(row.type), code(row.anthropic), code(row.grpc))
    return (*said, "yes" if row.retryable else "no", kind().message)
