"""The needs of a gateway."""

from penstock.connectors.postgres import roles
from penstock.contract import shared
from penstock.contract.nouns import Called, Certificate, Ending, Life, Port, Probe, Process
from penstock.settings.processes import GatewaySettings
from penstock.telemetry import pages
from penstock.tls.identity import Role

GATEWAY = Process(
    name="gateway",
    about="Takes requests of clients and sends them to workers.",
    command=("penstock", "gateway"),
    settings=GatewaySettings,
    needed=("home", "host", "metrics_host", *shared.STORES_AND_KEYS, "answers_url", "artifact_store"),
    ports=(
        Port(
            name="public",
            setting="port",
            number=8080,
            callers=("clients",),
            meaning="The inference APIs, and yes or no to sending requests here, or to this region; nothing else.",
            paths=("/v1/*", "/v2", "/v2/*", "/docs", "/docs/*", "/openapi.json", pages.REGION),
        ),
        Port(
            name="grpc",
            setting="grpc_port",
            number=8081,
            callers=("clients",),
            meaning="The Open Inference Protocol over gRPC (HTTP/2 without TLS), with health and reflection.",
        ),
        shared.private("Metrics and probes; it must not be reached from where clients are."),
    ),
    probes=(
        ("live", shared.LIVE),
        (
            "ready",
            Probe(
                port="private",
                path=pages.READY,
                meaning="It has a routing table and keys and does not drain. A no wants no requests sent here.",
            ),
        ),
        (
            "region",
            Probe(
                port="private",
                path=pages.REGION,
                meaning="A worker of some alias could answer. A no wants requests sent to another region.",
            ),
        ),
    ),
    metrics=("private", pages.METRICS),
    folders=(
        shared.home(
            shared.GIB,
            Life.REPLICA,
            "The spool of ledger rows that the database has not yet, the last good table, and records of requests.",
        ),
        shared.TEMPORARY,
    ),
    secrets=(
        *shared.secrets("gateway"),
        shared.authority("answers", "the answers' store", optional=True),
        shared.password("answers", "The password of the answers' store."),
    ),
    certificate=Certificate(role=Role.GATEWAY),
    calls=(
        shared.database(roles.GATEWAY),
        shared.LIMITS,
        Called(to="answers", setting="answers_url", port="redis", meaning="Answers under idempotency keys."),
        shared.ARTIFACTS,
        shared.PAYLOADS,
        shared.KEYS,
        *shared.WORKERS_AND_TRACES,
    ),
    ending=Ending(
        grace_setting="drain_grace_s",
        signals=(
            ("SIGTERM", "Drains: takes no new connection, lets running answers end, delivers what they took."),
            ("SIGTERM again", "Ends at once."),
        ),
        exits=shared.EXITS,
    ),
    replicas="any number",
)
