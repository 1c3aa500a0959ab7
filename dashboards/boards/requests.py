"""A request's way through the platform: one row for each stage, in path order, with the same three panels in each."""

from collections.abc import Mapping
from dataclasses import dataclass

from dashboards.layout import Board, Row
from dashboards.panels import lines, parts
from dashboards.queries import Query, gauge, mean, quantile, query, rate
from penstock.domain.outcome import Stage
from penstock.telemetry import names
from penstock.telemetry.definitions import Label

OPERATION, KIND = Label.GEN_AI_OPERATION_NAME, Label.GEN_AI_TOKEN_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What a stage's errors are: codes of answers, how requests end in it, and what others count there."""

    codes: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    others: tuple[Query, ...] = ()

    def queries(self) -> tuple[Query, ...]:
        """Return one family of lines for each of them."""
        codes, outcomes = "|".join(self.codes), "|".join(self.outcomes)
        return (
            *((query(rate(names.REFUSALS, "code", code=codes), "{{code}}"),) if codes else ()),
            *((query(rate(names.REQUESTS, "outcome", outcome=outcomes), "ended: {{outcome}}"),) if outcomes else ()),
            *self.others,
        )


FAULTS: Mapping[Stage, Faults] = {
    Stage.EDGE: Faults(
        codes=(
            "invalid_request", "malformed_body", "invalid_field", "unsupported_field", "body_too_large",
            "compressed_body", "headers_too_large", "route_not_found", "rollout_not_found", "method_not_allowed",
            "conflict", "idempotency_mismatch", "request_not_found", "artifact_refused", "table_refused",
            "internal_error", "origin_not_allowed", "unknown_expectation", "window_not_offered",
            "object_not_found", "payload_gone", "payload_unreadable", "storage_full", "previous_response_not_found",
            "not_a_form",
        )
    ),
    Stage.AUTH: Faults(codes=("invalid_api_key", "forbidden")),
    Stage.UPLOAD: Faults(codes=("request_timeout",)),
    Stage.PREPROCESS: Faults(
        codes=(
            "model_not_found", "context_length_exceeded", "unsupported_by_model", "no_rule_fits", "price_above_cap",
        )
    ),
    Stage.ADMISSION: Faults(
        codes=(
            "rate_limit_exceeded", "request_exceeds_limit", "token_limit_exceeded", "budget_exceeded",
            "request_exceeds_engine", "file_limit_exceeded",
            "store_unavailable", "content_filter",
        )
    ),
    Stage.WAKE: Faults(others=(query(rate(names.HOLDS, "outcome"), "held requests: {{outcome}}"),)),
    Stage.ROUTE: Faults(
        codes=("no_capacity", "rejected", "draining"),
        others=(query(rate(names.RETRIES, "reason"), "tried elsewhere: {{reason}}"),),
    ),
    Stage.ADAPTER: Faults(others=(query(rate(names.ADAPTER_LOADS, "outcome"), "loads at workers: {{outcome}}"),)),
    Stage.QUEUE: Faults(
        codes=("overloaded", "evicted", "deadline_in_queue", "deadline_unreachable"),
        others=(query(rate(names.DOOR_SHED, "reason"), "at the door: {{reason}}"),),
    ),
    Stage.BATCH_WAIT: Faults(
        others=(query(rate(names.BATCH_LEFT, "reason", reason="cancelled|expired|late"), "items: {{reason}}"),)
    ),
    Stage.PREPARE: Faults(codes=("engine_refused",)),
    Stage.COMPUTE: Faults(others=(query(rate(names.BATCH_LEFT, "reason"), "items: {{reason}}"),)),
    Stage.PREFILL: Faults(codes=("engine_error", "worker_lost", "loses_workers"), outcomes=("engine_error",)),
    Stage.DECODE: Faults(
        codes=("stream_broken", "deadline_exceeded", "budget_reached", "limit_reached"),
        outcomes=("broken_stream", "deadline"),
        others=(query(rate(names.CONTINUATIONS, "outcome"), "continued elsewhere: {{outcome}}"),),
    ),
    Stage.RELAY: Faults(
        codes=("client_closed_request", "reader_too_slow", "answer_filtered"),
        outcomes=("cancelled", "slow_reader", "filtered"),
    ),
}  # fmt: skip
"""Each code of the published table in the stage where it is mostly raised; a test compares with the table."""

TITLES: Mapping[Stage, str] = {
    Stage.EDGE: "Edge: the request comes in and is parsed",
    Stage.AUTH: "Auth: the caller, from the key alone",
    Stage.UPLOAD: "Upload: the caller sends its body, in its own time",
    Stage.PREPROCESS: "Preprocess: template, tokens, context",
    Stage.ADMISSION: "Admission: limits and budgets, one lease",
    Stage.WAKE: "Wake: held until a worker serves",
    Stage.ROUTE: "Route: a worker is chosen and reached",
    Stage.ADAPTER: "Adapter: the wait at the worker's door for its load, or for a slot",
    Stage.QUEUE: "Queue: the wait at the worker's door and in its engine",
    Stage.BATCH_WAIT: "Batch wait: a prepared item waits for its batch to start",
    Stage.PREPARE: "Prepare: a handler's input becomes tensors, an image is decoded",
    Stage.COMPUTE: "Compute: the batch of a model with a handler",
    Stage.PREFILL: "Prefill: until the first token",
    Stage.DECODE: "Decode: token by token",
    Stage.RELAY: "Relay: the rest of the way back",
}


def _stage(stage: Stage) -> Row:
    metric = names.STAGE_SECONDS
    return Row(
        title=TITLES[stage],
        panels=(
            lines(
                f"{stage}: rate",
                "Requests a second that passed this stage.",
                "reqps",
                query(rate(metric, "model", stage=stage), "{{model}}"),
            ),
            lines(
                f"{stage}: errors",
                "Requests a second that ended here, by error code; the code tells whose fault it is.",
                "reqps",
                *FAULTS[stage].queries(),
            ),
            lines(
                f"{stage}: duration",
                "Seconds spent in this stage alone.",
                "s",
                query(quantile(0.5, metric, stage=stage), "p50"),
                query(quantile(0.95, metric, stage=stage), "p95"),
                query(quantile(0.99, metric, stage=stage), "p99"),
            ),
        ),
    )


WHOLE = Row(
    title="The whole way",
    panels=(
        parts(
            "Requests",
            "How requests end, a second.",
            "reqps",
            query(rate(names.REQUESTS, "outcome"), "{{outcome}}"),
        ),
        parts(
            "Where the time goes",
            "Mean seconds of a request by stage, on top of one another in path order.",
            "s",
            *(query(mean(names.STAGE_SECONDS, stage=stage), stage) for stage in Stage),
        ),
        lines(
            "Arrival to last byte",
            "Of every request that was served, unary and streamed.",
            "s",
            query(quantile(0.5, names.REQUEST_SECONDS, "api"), "{{api}} p50"),
            query(quantile(0.95, names.REQUEST_SECONDS, "api"), "{{api}} p95"),
        ),
        lines(
            "In flight",
            "Requests that are admitted and not yet settled (billed).",
            "short",
            query(gauge(names.IN_FLIGHT, "model"), "{{model}}"),
        ),
    ),
)

GEN_AI = Row(
    title="In OpenTelemetry's gen_ai names, as other tools read them",
    panels=(
        lines(
            "Duration",
            "The 95th percentile of a request at the gateway, by operation.",
            "s",
            query(quantile(0.95, names.GEN_AI_REQUEST_SECONDS, OPERATION), f"{{{{{OPERATION}}}}}"),
        ),
        lines(
            "First token and time per token",
            "The 95th percentile to a stream's first token, and of its mean time per further token.",
            "s",
            query(quantile(0.95, names.GEN_AI_FIRST_TOKEN_SECONDS), "first token"),
            query(quantile(0.95, names.GEN_AI_PER_TOKEN_SECONDS), "per token"),
        ),
        lines(
            "Tokens of a request",
            "The mean, input and output.",
            "short",
            query(mean(names.GEN_AI_TOKEN_USAGE, KIND), f"{{{{{KIND}}}}}"),
        ),
    ),
)

BOARD = Board(
    title="Requests",
    says="Where on its way does a request lose time, and where does it fail?",
    rows=(WHOLE, *(_stage(stage) for stage in Stage), GEN_AI),
)
