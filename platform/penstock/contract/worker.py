"""The needs of a worker."""

from penstock.contract import shared
from penstock.contract.nouns import (
    Called,
    Certificate,
    Devices,
    Ending,
    Folder,
    Life,
    Port,
    Probe,
    Process,
    Secret,
)
from penstock.settings.processes import WorkerSettings
from penstock.telemetry import pages
from penstock.tls.identity import Role
from penstock.worker.agent.agent import EXIT_DRAINED, EXIT_FAILED, EXIT_FORCED

WORKER = Process(
    name="worker",
    about="Runs one engine with one version of a model.",
    command=("penstock", "worker", "{VERSION}", "--id", "{WORKER}"),
    arguments=(
        ("VERSION", "The version to serve, as name@digest."),
        ("WORKER", "The worker's name, which no other has: `penstock worker-key WORKER VERSION` makes its secret."),
    ),
    settings=WorkerSettings,
    needed=(
        "home",
        "host",
        "controller_url",
        "artifact_store",
        "worker_key_file",
        "signing_key_file",
        "advertise",
        *shared.CERTIFICATE,
    ),
    ports=(
        Port(
            name="gate",
            setting="worker_port",
            number=8100,
            callers=("gateway", "runner"),
            meaning="The engine behind its gate: requests with a ticket.",
        ),
        Port(
            name="status",
            setting="status_port",
            number=8090,
            callers=("probes", "metrics"),
            meaning="Metrics and probes.",
        ),
    ),
    probes=(
        (
            "live",
            Probe(
                port="status",
                path=pages.LIVE,
                meaning="The agent runs; it restarts its engine itself. A no wants a restart.",
                start_within_s=60,
            ),
        ),
        (
            "ready",
            Probe(
                port="status",
                path=pages.READY,
                meaning="The engine serves. A start may take half an hour: weights are fetched and kernels compiled.",
            ),
        ),
    ),
    metrics=("status", pages.METRICS),
    folders=(
        shared.home(2 * shared.GIB, Life.PROCESS, "Logs of engines, sockets, plans."),
        Folder(
            name="versions",
            setting="node_cache",
            path="/var/cache/penstock/versions",
            size_bytes=WorkerSettings.model_fields["node_cache_bytes"].default,
            size_setting="node_cache_bytes",
            life=Life.MACHINE,
            meaning="Verified copies of versions, each fetched once for all workers of the machine.",
        ),
        Folder(
            name="compiled",
            setting="compile_cache",
            path="/var/cache/penstock/compiled",
            size_bytes=20 * shared.GIB,
            life=Life.MACHINE,
            meaning="What engines compile, and their HOME; owned by the worker's user alone.",
        ),
        Folder(
            name="shared memory",
            setting="",
            path="/dev/shm",  # noqa: S108  where the kernel has it
            size_bytes=8 * shared.GIB,
            life=Life.PROCESS,
            meaning="Of engines that span several devices: memory, not disk.",
        ),
        shared.TEMPORARY,
    ),
    secrets=(
        Secret(
            setting="worker_key_file",
            name="worker-key",
            reread=shared.AT_START,
            exchangeable=False,
            meaning="This worker's own secret; whoever starts the worker makes it. Never the platform's key.",
        ),
        Secret(
            setting="signing_key_file",
            name="signing-public-key",
            reread="for each version",
            exchangeable=True,
            meaning="The public key of whoever signs versions, as PEM.",
        ),
    ),
    certificate=Certificate(role=Role.WORKER),
    calls=(
        Called(
            to="controller", setting="controller_url", port="api", meaning="Heartbeats; the answer may be to drain."
        ),
        shared.ARTIFACTS,
    ),
    devices=Devices(
        kind="nvidia",
        variables=(("NVIDIA_VISIBLE_DEVICES", "Which devices the container was given."),),
        meaning="One GPU, or one MIG slice, for each rank of the engine.",
    ),
    ending=Ending(
        grace_setting="drain_grace_s",
        signals=(
            ("SIGTERM", "Drains: leaves the table, lets running requests end, stops its engine."),
            ("SIGTERM again", "Ends at once."),
        ),
        exits=(
            (EXIT_DRAINED, "drained"),
            (EXIT_FAILED, "gave up; its last report and the log say why"),
            (EXIT_FORCED, "was forced"),
        ),
    ),
    replicas="any number for each version",
)
