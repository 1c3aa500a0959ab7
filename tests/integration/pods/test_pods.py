"""What the infrastructure deploys starts, joins and serves: rendered manifests, run as a kubelet would.

    make test PYTEST_ARGS="-s tests/integration/pods"      # prints what happens, with seconds

Real are the images' trees, Postgres, Redis and S3, TLS to both stores and between processes, every file and probe. The
first model comes by the commands of the first day (step 9 of `infra/README.md`), signed by KMS (moto's). The
engine is one on paper (`paper_vllm`), for real ones alone would take longer than all of this. Workers are
the controller's: it writes them into an API server (a fake one) with the rendered rights, from the pools that it finds
mounted, and the host starts the pods that come of it. Their number goes over KEDA's protocol (`keda`).
"""

import re
import ssl
from collections.abc import Sequence

import httpx
import pytest

from tests.support.pods.cluster import INFRA_PYTHON, until
from tests.support.pods.container import is_possible
from tests.support.pods.people import Caller, Operator
from tests.support.pods.pod import Pod
from tests.support.pods.site import Site
from tests.support.run_book import Person, commands

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(not is_possible(), reason="needs root, to make namespaces"),
    pytest.mark.skipif(
        not INFRA_PYTHON.exists(), reason="infra's own environment renders the manifests: make infra-setup"
    ),
]
STREAM_TOKENS = 160
SCALED = "scaledobjects"


def test_what_is_deployed_serves(cluster: Site) -> None:
    """Findings 3.1 to 3.16: from an empty database and rendered manifests to streams that outlive pods and leaders."""
    story = Story(cluster)
    story.begins()
    story.serves()
    story.loses_a_pod()
    story.loses_its_leader()
    story.exchanges_a_version()
    story.keeps_its_books()


class Story:
    def __init__(self, site: Site) -> None:
        self.site, self.pods, self.say = site, site.cluster, site.say
        self.public = f"http://{site.services['gateway']}:8080"

    def begins(self) -> None:
        """The job prepares the database; controllers and gateways become ready by their own probes."""
        job = self.pods.job("init")
        self.say(f"init said: {job.log().strip().splitlines()[-1]}")
        key = (self.site.folder / "claims/admin-key/admin.key").read_text().strip()
        address = f"https://{self.site.services['controller']}:8079"
        self.operator = Operator(url=address, key=key, tls=self._certificate("operator"))
        self.controllers = self.pods.deployment("controller")
        self.gateways = self.pods.stateful_set("gateway")
        self.pods.until_ready(*self.controllers, *self.gateways)
        assert len(self.controllers) == len(self.gateways) == 2
        assert len(self._leaders()) == 1

    def _certificate(self, role: str) -> ssl.SSLContext:
        """Return TLS with the certificate of a role, as an operator takes it out of the cluster."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        own = self.site.folder / f"{role}.pem"
        secret = self.pods.machine.storage.secrets[f"{role}-tls"]
        own.write_text(secret["tls.key"] + secret["tls.crt"])
        context.load_cert_chain(own)
        return context

    def serves(self) -> None:
        """The first model by the page's commands: its workers' pods join, and a chat streams through."""
        self.first = self._first_model()
        self.operator.lead("chat", self.first[0])
        self.caller = Caller(url=self.public, key=self.operator.caller("acme"), model="chat")
        self._until_served(self.first[0])
        until("gateways know the alias", lambda: all(self.caller.sees_it() for _ in range(4)))
        stream = self.caller.stream(20).end()
        assert stream.is_whole, stream
        self.say(f"a chat streamed through: {len(stream.said)} tokens")
        least = self.pods.find("ScaledObject", "gateway")["spec"]["minReplicaCount"]
        until("KEDA is told of gateways", lambda: dict(self.site.keda.told).get("gateway", 0) >= least, 60, self._held)

    def loses_a_pod(self) -> None:
        """A machine that is taken away before its pod's streams end breaks none of them."""
        streams = [self.caller.stream(STREAM_TOKENS) for _ in range(4)]
        lost, *_ = self.first[1]
        self.say(f"{lost.name} is evicted, and gone in 2 s; 4 streams run")
        self.site.kubelet.evict(lost, grace_s=2)
        lost.wait()
        for stream in streams:
            assert stream.end().is_whole, stream
        self.say("all 4 streams are whole")

    def loses_its_leader(self) -> None:
        """The leading controller is lost with its machine; the other leads, and streams do not notice."""
        (leader,) = self._leaders()
        stream = self.caller.stream(STREAM_TOKENS)
        self.say(f"{leader.name} leads, and is lost with its machine")
        leader.lose()
        leader.wait()
        until("the other controller leads", self._leaders, within_s=40)
        self.say(f"{self._leaders()[0].name} leads")
        assert stream.end().is_whole, stream
        keda, (name,) = self.site.keda, self._scaled(self.first[0])
        before = len(keda.told)
        until("the successor tells the number", lambda: (name, 2) in keda.told[before:], 60, self._held)
        until("the successor pushes", lambda: keda.newest[name].pushed, 60, self._held)

    def exchanges_a_version(self) -> None:
        """A second version takes the place of the first, and the first one's streams end in order.

        Its second worker waits for a machine of the first version's: the environment has three.
        """
        running = self.caller.stream(STREAM_TOKENS)
        second, _ = self._deployed(2, pods=1)
        self.operator.lead("chat", second)
        self._until_served(second, by=1)
        streams = [self.caller.stream(STREAM_TOKENS) for _ in range(2)]
        self.operator.deploy(self.first[0], 0)
        for stream in (running, *streams):
            assert stream.end().is_whole, stream
        until("nothing of the first version is left", lambda: not self._written(self.first[0]))
        self.pods.until_ready(*self._standing(second, 2))
        self._until_served(second)
        self.say(f"{second} serves, {self.first[0]} is withdrawn; 3 streams are whole")

    def keeps_its_books(self) -> None:
        """Gateways are lost with their machines while the database is away; their replicas deliver what they owed."""
        with self.site.database_away():
            asked = [self.caller.stream(10).end() for _ in range(6)]
            assert all(stream.is_whole for stream in asked), asked
            running = [self.caller.stream(STREAM_TOKENS) for _ in range(2)]
            for gateway in self.gateways:
                self.say(f"{gateway.name} is lost with its machine; the database was away, its spool has the rows")
                gateway.lose()
                gateway.wait()
        owed = {stream.request for stream in (*asked, *(stream.end() for stream in running))}
        assert len(owed) == len(asked) + len(running)
        assert owed & self._rows() == set()
        self.gateways = [self.pods.replica("gateway", index) for index in range(2)]
        self.pods.until_ready(*self.gateways)
        until("each request has its row", lambda: owed <= self._rows(), otherwise=lambda: str(owed - self._rows()))
        self.say(f"both replicas came up elsewhere; the ledger has a row for each of {len(owed)} requests")

    def _rows(self) -> set[str]:
        """Return the requests in the ledger; a request has one row."""
        found = self.site.ledger()
        assert len(found) == len(set(found))
        return set(found)

    def _first_model(self) -> tuple[str, list[Pod]]:
        """Type step 9, and wait between pushing and asking until the version is served; return it and its pods."""
        person = Person(said=self._words(), environment=self._environment())
        version = ""
        for line in self._typed():
            if line.startswith("curl") and not version:
                version = person.said["VERSION"]
                self.pods.until_ready(*self._standing(version, 1))
                self._until_served(version, by=1)
                until("gateways know the model", lambda: all(_sees(person) for _ in range(4)))
            said = person.type(line).strip()
            if line.startswith("penstock models push"):
                person.said["VERSION"] = said.splitlines()[-1]
            if line.startswith("penstock keys create"):
                (person.said["KEY"],) = re.findall(r"psk_\w+", said)
            self.say(f"typed: {line.split(' --')[0]}")
        self.operator.deploy(version, 2)
        found = self._standing(version, 2)
        self.pods.until_ready(*found)
        return version, found

    @staticmethod
    def _typed() -> list[str]:
        """Return step 9 without the commands that ask AWS itself."""
        found = [line for line in commands(9) if line.split()[0] in {"penstock", "curl"}]
        assert len(found) == len(commands(9)) - 2
        return found

    def _words(self) -> dict[str, str]:
        return {
            "MODEL_FOLDER": str(self.site.model("chat-8b", 1)),
            "MODEL": "chat-8b",
            "TENANT": "first",
            "ARTIFACT_BUCKET": self.site.bucket,
            "ORGANIZATION-ENV": "penstock-dev",
            "https://DOMAIN": self.public,
        }

    def _environment(self) -> dict[str, str]:
        """Return the environment of an operator's laptop, as step 7 describes it."""
        files = self.site.folder / "operator"
        files.mkdir()
        for name, content in self.pods.machine.storage.secrets["operator-tls"].items():
            (files / name).touch(mode=0o600)
            (files / name).write_text(content)
        return {
            "PENSTOCK_HOME": str(files / "home"),
            "PENSTOCK_URL": self.operator.url,
            "PENSTOCK_KEY": self.operator.key,
            "PENSTOCK_TLS_CERT_FILE": str(files / "tls.crt"),
            "PENSTOCK_TLS_KEY_FILE": str(files / "tls.key"),
            "PENSTOCK_TLS_CA_FILE": str(files / "ca.crt"),
        }

    def _deployed(self, number: int, pods: int = 2) -> tuple[str, list[Pod]]:
        """Publish a version and deploy two workers: the controller writes them, and the pods with room become ready."""
        version = self.operator.register(self.site.publish("chat-8b", number))
        self.say(f"{version} is published and registered")
        self.operator.deploy(version, 2)
        found = self._standing(version, pods)
        self.pods.until_ready(*found)
        return version, found

    def _standing(self, version: str, pods: int) -> list[Pod]:
        kubelet = self.site.kubelet
        until(f"{version} has {pods} pods", lambda: len(kubelet.of(version)) == pods, otherwise=self._held)
        return kubelet.of(version)

    def _written(self, version: str) -> list[str]:
        """Return what stands of a version in the API server."""
        api, kinds = self.site.kubelet.api, ("deployments", SCALED, "poddisruptionbudgets")
        all_ = [(kind, name) for kind in kinds for name in api.names(kind)]
        return [
            f"{kind} {name}"
            for kind, name in all_
            if api.get(kind, name)["metadata"]["annotations"]["penstock.io/version"] == version
        ]

    def _scaled(self, version: str) -> list[str]:
        """Return the ScaledObjects of a version."""
        return [name for kind, _, name in (one.partition(" ") for one in self._written(version)) if kind == SCALED]

    def _held(self) -> str:
        return "\n".join([*(pod.log()[-3000:] for pod in self.controllers), f"KEDA hears {self.site.keda.newest}"])

    def _until_served(self, version: str, by: int = 2) -> None:
        def is_served() -> bool:
            workers = self.operator.workers().values()
            return [one["state"] for one in workers if one["version"] == version].count("ready") == by

        until(f"{version} is served by {by}", is_served, otherwise=lambda: str(self.operator.workers()))

    def _leaders(self) -> Sequence[Pod]:
        return [pod for pod in self.controllers if not pod.is_over and _page(pod).get("leader")]


def _sees(person: Person) -> bool:
    return Caller(url=person.said["https://DOMAIN"], key=person.said["KEY"], model=person.said["MODEL"]).sees_it()


def _page(pod: Pod) -> dict[str, object]:
    try:
        url = f"http://{pod.address}:{pod.port('private')}/readyz"
        return dict(httpx.get(url, trust_env=False, timeout=2).json())
    except httpx.HTTPError:
        return {}
