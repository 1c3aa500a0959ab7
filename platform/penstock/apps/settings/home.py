"""The folder of one platform on one machine, and the names in it."""

from pathlib import Path


class Home:
    """The folder's layout; nothing is created here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings_file = root / "settings.yaml"
        self.platform_key = root / "platform.key"
        self.signing = root / "signing"
        self.demo_key = root / "demo.key"
        self.admin_key = root / "admin.key"
        self.postgres = root / "postgres"
        self.artifacts = root / "artifacts"
        self.cache = root / "cache"
        self.tls = root / "tls"
        self.run = root / "run"
        self.logs = root / "logs"
        self.spool = root / "spool"
        self.records = root / "records"
        self.decisions = root / "decisions" / "decisions.jsonl"
        self.observe = root / "observe"
        self.controller_address = self.run / "controller.addr"
        self.gateway_address = self.run / "gateway.addr"
        self.gateway_grpc_address = self.run / "gateway.grpc.addr"
        self.prometheus_address = self.run / "prometheus.addr"
        self.alertmanager_address = self.run / "alertmanager.addr"

    def worker_key(self, worker: str) -> Path:
        """Return the path of a worker's own secret."""
        return self.run / "workers" / f"{worker}.key"
