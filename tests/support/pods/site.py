"""The surroundings of a cluster of ours: Postgres and Redis behind TLS, S3, KMS, the vault's secrets, a model."""

import asyncio
import json
import logging
import os
import shutil
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import asyncpg
import boto3
import redis

from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.connectors.s3.store import S3Store
from penstock.connectors.signing.kms import SCHEME, KmsSigner
from penstock.domain.ids import ModelName
from penstock.packaging.packing import Packed, Publishing, describe, measure, publish
from tests.support import tree
from tests.support.clusters.api import TOKEN, KubeApi
from tests.support.engines import wire
from tests.support.models import versions
from tests.support.pods import paper_vllm
from tests.support.pods.authority import Authority, authority
from tests.support.pods.cluster import Cluster, Transcript, rendered
from tests.support.pods.container import Mount
from tests.support.pods.images import Image, image
from tests.support.pods.keda import Keda, keda
from tests.support.pods.kubelet import Kubelet, kubelet
from tests.support.pods.network import Network
from tests.support.pods.pod import Machine
from tests.support.pods.volumes import Storage
from tests.support.run_book import public_half
from tests.support.stores.redis_server import RedisServer
from tests.support.stores.s3_server import CREDENTIALS, new_signing_key, s3_server

PASSWORD = "one of tests"
KEY, PEPPER = "ab" * 32, "cd" * 32
KUBERNETES = "kubernetes.internal.test"
DATABASE, LIMITS = "database.internal.test", "limits.internal.test"
AUTHORITIES = Path(ssl.get_default_verify_paths().openssl_cafile)
ENGINE = "/engine"
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_KMS")
SIGNING = "alias/penstock-dev-model-signing"


@dataclass(frozen=True, kw_only=True)
class Site:
    """A cluster with all around it, and how to reach what is public."""

    cluster: Cluster
    kubelet: Kubelet
    keda: Keda
    services: Mapping[str, str]
    store: S3Store
    bucket: str
    database: EmbeddedPostgres
    folder: Path
    say: Transcript

    @contextmanager
    def database_away(self) -> Iterator[None]:
        self.say("the database is stopped")
        self.database.stop()
        try:
            yield
        finally:
            self.database.start()
            self.say("the database is back")

    def ledger(self) -> list[str]:
        """Return the request of each row of the ledger."""

        async def read() -> list[str]:
            connection = await asyncpg.connect(self.database.dsn)
            found = await connection.fetch("select request from ledger")
            await connection.close()
            return [row["request"] for row in found]

        return asyncio.run(read())

    def model(self, name: str, number: int) -> Path:
        """Return a model's folder: the demo's tokenizer, and weights of no size."""
        source = versions.model_folder(self.folder / f"models/{name}-{number}", size=1000 + number)
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(demo_model() / file, source / file)
        return source

    def publish(self, name: str, number: int) -> Packed:
        """Put a version into the store."""
        source, choices = self.model(name, number), replace(versions.CHOICES, name=ModelName(name))
        signer = KmsSigner(f"{SCHEME}{SIGNING}")
        publishing = Publishing(store=self.store, signer=signer, work=self.folder, report=lambda _: None)
        return publish(source, describe(source, measure(source), choices), publishing)


def demo_model() -> Path:
    """Return the folder of the demo's small chat model, which `make models` prepares."""
    return next((tree.ROOT / ".penstock/cache/demo").glob("smollm2-*"))


@contextmanager
def site(folder: Path, environment: str) -> Iterator[Site]:
    """Yield a cluster with nothing started in it."""
    with ExitStack() as open_now:
        say = Transcript()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # S3's: a line for each blob
        objects = rendered(environment)
        say(f"{len(objects)} objects rendered from infra/environments/{environment}")
        network = open_now.enter_context(Network(folder / "hosts"))
        trust = authority(folder)
        database = EmbeddedPostgres(folder / "postgres", folder / "logs/postgres.log")
        database.start()
        open_now.callback(database.stop)
        vault = _stores(folder, network, trust, database, open_now)
        endpoint = open_now.enter_context(s3_server())
        address = _told(objects, "PENSTOCK_ARTIFACT_STORE")
        open_now.enter_context(mock.patch.dict(os.environ, dict.fromkeys(ENDPOINTS, endpoint)))
        boto3.client("s3", endpoint_url=endpoint).create_bucket(
            Bucket=urlsplit(address).netloc, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        _sealing_key(endpoint, _told(objects, "PENSTOCK_SEALING_KEY").removeprefix(SCHEME))
        storage = Storage(root=folder, machine={"weight-cache": _weight_cache(folder)})
        machine = Machine(
            storage=storage,
            images=_images(folder),
            hosts=network.hosts,
            said=say,
            given={
                **CREDENTIALS,
                **dict.fromkeys(ENDPOINTS, endpoint),
                "KUBERNETES_SERVICE_HOST": KUBERNETES,
                "KUBERNETES_SERVICE_PORT": "443",
            },
            files=(_authorities(folder, trust),),
            token=_token(folder, trust),
            instead={"PENSTOCK_DEVICE": "cpu"},
        )
        cluster = Cluster(objects=objects, machine=machine, network=network, folder=folder / "pods")
        api = open_now.enter_context(KubeApi(tls=trust.server(KUBERNETES)))
        network.service(network.name(KUBERNETES), 443, lambda: [api.address])
        open_now.callback(cluster.close)
        running = open_now.enter_context(kubelet(api, cluster))
        store = S3Store(address, endpoint=endpoint)
        cluster.certificates(trust)
        cluster.configs()
        cluster.secrets({**vault, **_keys(public_half(new_signing_key(endpoint, alias=SIGNING)[1], folder))})
        say("Postgres and Redis behind TLS, S3 with an empty bucket, KMS with two keys, secrets by External Secrets")
        yield Site(
            cluster=cluster,
            kubelet=running,
            keda=open_now.enter_context(keda(api, cluster)),
            services=cluster.services(),
            store=store,
            bucket=urlsplit(address).netloc,
            database=database,
            folder=folder,
            say=say,
        )


def _stores(
    folder: Path, network: Network, trust: Authority, server: EmbeddedPostgres, open_now: ExitStack
) -> dict[str, str]:
    limits_store = open_now.enter_context(RedisServer(folder))
    with redis.Redis.from_url(limits_store.url) as client:
        client.config_set("requirepass", PASSWORD)
    unix = Path(parse_qs(urlsplit(server.dsn).query)["host"][0]) / ".s.PGSQL.5432"
    database, limits = network.name(DATABASE), network.name(LIMITS)
    network.behind_tls(database, 5432, unix, trust.server(DATABASE), asks=True)
    network.behind_tls(limits, 6379, limits_store.socket, trust.server(LIMITS))
    name = urlsplit(server.dsn).path or "/postgres"
    return {
        "database-url": f"postgresql://penstock@{DATABASE}:5432{name}",
        "database-ca": trust.file.read_text(),
        "limits-url": f"rediss://{LIMITS}:6379/0",
        "answers-url": f"rediss://{LIMITS}:6379/1",
        "database-password": "not asked for over a socket",
        "gateway-database-password": "of-gateways",
        "controller-database-password": "of-controllers",
        "runner-database-password": "of-runners",
        "limits-password": PASSWORD,
        "answers-password": PASSWORD,
        "limits-ca": trust.file.read_text(),
        "answers-ca": trust.file.read_text(),
    }


def _keys(public: Path) -> dict[str, str]:
    """The exchangeable secrets: JSON by file name."""
    files = {"platform-key": KEY, "api-key-pepper": PEPPER, "signing-public-key": public.read_text()}
    return {name: json.dumps({name: content}) for name, content in files.items()}


def _authorities(folder: Path, trust: Authority) -> Mount:
    """The base's authorities, and ours among them."""
    file = folder / "authorities.pem"
    file.write_text(AUTHORITIES.read_text() + trust.file.read_text())
    return Mount(source=file, path=str(AUTHORITIES.resolve()), read_only=True)


def _weight_cache(folder: Path) -> Path:
    """A machine's folder as the DaemonSet prepares it."""
    cache = folder / "weights"
    cache.mkdir()
    (cache / ".penstock-nvme").touch()
    os.chown(cache, 10001, 10001)
    return cache


def _sealing_key(endpoint: str, alias: str) -> None:
    kms = boto3.client("kms", endpoint_url=endpoint)
    kms.create_alias(AliasName=alias, TargetKeyId=kms.create_key()["KeyMetadata"]["KeyId"])


def _told(objects: tuple[dict[str, Any], ...], name: str) -> str:
    """Return the value of a variable of the rendered gateway."""
    (gateway,) = (one for one in objects if one["kind"] == "StatefulSet")
    told = gateway["spec"]["template"]["spec"]["containers"][0]["env"]
    return next(str(one["value"]) for one in told if one["name"] == name)


def _token(folder: Path, trust: Authority) -> Path:
    """Return what the kubelet mounts of a service account."""
    account = folder / "account"
    account.mkdir()
    (account / "token").write_text(TOKEN)
    shutil.copy(trust.file, account / "ca.crt")
    return account


def _images(folder: Path) -> dict[str, Image]:
    """The images by the names that manifests have; the worker's has an engine on paper in vLLM's place."""
    work = folder / "wheel"
    work.mkdir()
    core = image("gateway", work)
    engine = folder / "vllm"
    engine.mkdir()
    shutil.copy(paper_vllm.__file__, engine / "__init__.py")
    shutil.copy(wire.__file__, engine / "wire.py")
    variables = {**core.environment, "PYTHONPATH": ENGINE}
    worker = replace(core, environment=variables, more={f"{ENGINE}/vllm": engine})
    return {"gateway": core, "controller": image("controller", work), "worker": worker}
