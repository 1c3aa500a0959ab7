"""The needs of a controller."""

from penstock.connectors.kubernetes.kinds import RIGHTS
from penstock.connectors.postgres import roles
from penstock.contract import shared
from penstock.contract.nouns import Called, Certificate, Ending, Life, Port, Probe, Process, Right
from penstock.settings import CONTROLLER_PORT
from penstock.settings.processes import ControllerSettings
from penstock.telemetry import pages
from penstock.tls.identity import Role

SCALER_PORT = 8078

CONTROLLER = Process(
    name="controller",
    about="Decides what runs where, and publishes the routing table; the operators' API.",
    command=("penstock", "controller"),
    settings=ControllerSettings,
    needed=("home", "host", "metrics_host", "advertise", *shared.STORES_AND_KEYS),
    ports=(
        Port(
            name="api",
            setting="controller_port",
            number=CONTROLLER_PORT,
            callers=("operators", "worker"),
            meaning="The operators' API, and where workers report.",
        ),
        Port(
            name="scaler",
            setting="scaler_port",
            number=SCALER_PORT,
            callers=("keda",),
            meaning="Where KEDA asks for replicas, over gRPC; open on the leading controller alone.",
        ),
        shared.private("Metrics and probes."),
    ),
    probes=(
        ("live", shared.LIVE),
        (
            "ready",
            Probe(
                port="private",
                path=pages.READY,
                meaning="It leads and its ticks succeed (none older than three leases), or stands by.",
            ),
        ),
    ),
    metrics=("private", pages.METRICS),
    folders=(
        shared.home(
            shared.GIB,
            Life.PROCESS,
            "Where it is, what it knows of processes that it started, and why it decided what it did.",
        ),
        shared.TEMPORARY,
    ),
    secrets=shared.secrets("controller"),
    certificate=Certificate(role=Role.CONTROLLER),
    calls=(
        shared.database(roles.CONTROLLER),
        shared.LIMITS,
        shared.KEYS,
        Called(
            to="audit", setting="audit_url", port="https", meaning="S3 with Object Lock: segments of the audit log."
        ),
        Called(
            to="cluster", setting="kubeconfig", port="https", meaning="The cluster's API, where a cluster runs workers."
        ),
        Called(
            to="prometheus",
            setting="budgets_url",
            port="http",
            meaning="Where the promises are recorded, if anywhere: rollouts heed all error budgets then.",
        ),
    ),
    rights=tuple(Right(group=kind.group, resource=kind.plural, verbs=verbs) for kind, verbs in RIGHTS.items()),
    ending=Ending(
        signals=(("SIGTERM", "Gives the lead back and ends; what runs goes on without it."),),
        exits=((0, "ended in good order"), (1, "can't start; the log's last line says why")),
    ),
    replicas="two: one leads, the other stands by",
)
