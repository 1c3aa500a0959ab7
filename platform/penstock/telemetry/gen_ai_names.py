"""OpenTelemetry's metrics of generative AI (``gen_ai.*``), as Prometheus writes them; part of the catalogue.

Buckets are those that the conventions recommend.
"""

from penstock.telemetry.definitions import Label, histogram

_WHAT = (
    Label.GEN_AI_OPERATION_NAME,
    Label.GEN_AI_PROVIDER_NAME,
    Label.GEN_AI_REQUEST_MODEL,
    Label.GEN_AI_RESPONSE_MODEL,
)
GEN_AI_TOKEN_USAGE = histogram(
    "gen_ai_client_token_usage",
    "Tokens of one request, input and output (OpenTelemetry's gen_ai.client.token.usage).",
    (*_WHAT, Label.GEN_AI_TOKEN_TYPE),
    buckets=tuple(4.0**power for power in range(14)),
)
GEN_AI_REQUEST_SECONDS = histogram(
    "gen_ai_server_request_duration_seconds",
    "Time of a request to its last byte (OpenTelemetry's gen_ai.server.request.duration).",
    (*_WHAT, Label.ERROR_TYPE),
    buckets=tuple(0.01 * 2.0**power for power in range(14)),
)
GEN_AI_FIRST_TOKEN_SECONDS = histogram(
    "gen_ai_server_time_to_first_token_seconds",
    "Time to a stream's first token, of answered requests (OpenTelemetry's gen_ai.server.time_to_first_token).",
    _WHAT,
    buckets=(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
GEN_AI_PER_TOKEN_SECONDS = histogram(
    "gen_ai_server_time_per_output_token_seconds",
    "Mean time of a stream's tokens after the first (OpenTelemetry's gen_ai.server.time_per_output_token).",
    _WHAT,
    buckets=(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
)
