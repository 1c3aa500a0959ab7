"""The needs of a jobs runner."""

from penstock.connectors.postgres import roles
from penstock.contract import shared
from penstock.contract.nouns import Certificate, Ending, Life, Probe, Process
from penstock.settings.processes import RunnerSettings
from penstock.telemetry import pages
from penstock.tls.identity import Role

RUNNER = Process(
    name="runner",
    about="Runs jobs and lines of batches, delivers webhooks, deletes what expired.",
    command=("penstock", "jobs-runner"),
    settings=RunnerSettings,
    needed=("home", "metrics_host", *shared.STORES_AND_KEYS, "artifact_store", "payloads_url"),
    ports=(shared.private("Metrics and probes."),),
    probes=(
        ("live", shared.LIVE),
        (
            "ready",
            Probe(port="private", path=pages.READY, meaning="It has a routing table and keys and does not drain."),
        ),
    ),
    metrics=("private", pages.METRICS),
    folders=(
        shared.home(
            shared.GIB, Life.PROCESS, "The last good table and records of requests; nothing that a job's end needs."
        ),
        shared.TEMPORARY,
    ),
    secrets=shared.secrets("runner"),
    certificate=Certificate(role=Role.RUNNER),
    calls=(
        shared.database(roles.RUNNER),
        shared.LIMITS,
        shared.ARTIFACTS,
        shared.PAYLOADS,
        shared.KEYS,
        *shared.WORKERS_AND_TRACES,
    ),
    ending=Ending(
        grace_setting="drain_grace_s",
        signals=(
            ("SIGTERM", "Drains: claims no more, puts back what has not begun, lets what runs end within the grace."),
        ),
        exits=shared.EXITS,
    ),
    replicas="any number",
)
