"""A tiny but sound model version: real safetensors layout, a manifest, a signature, a store."""

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path

from penstock.connectors.folder.store import FolderStore
from penstock.connectors.signing.keys import PUBLIC
from penstock.connectors.signing.openssf import KeyPairSigner, PublicKeyVerifier
from penstock.domain.clock import SystemClock
from penstock.domain.ids import ModelName
from penstock.domain.money import MicroUsd, Price
from penstock.packaging.packing import Choices, Packed, Publishing, describe, measure, publish
from penstock.worker.artifacts.cache import NodeCache
from penstock.worker.artifacts.fetch import ArtifactSource, Fetcher
from penstock.worker.artifacts.node import Node

PRICE = Price(prompt_per_mtok=MicroUsd(1), cached_per_mtok=MicroUsd(1), output_per_mtok=MicroUsd(1))
CHOICES = Choices(name=ModelName("tiny"), price=PRICE, licence="Apache-2.0", origin="made by a test")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def safetensors(header: object, data: bytes) -> bytes:
    """Return a file with this header, sound or not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def weights(count: int = 1000, seed: int = 7) -> bytes:
    """Return a sound file with one tensor of ``count`` bytes."""
    data = bytes((index * seed + index // 251) % 256 for index in range(count))
    return safetensors({"w": {"dtype": "U8", "shape": [count], "data_offsets": [0, count]}}, data)


def model_folder(folder: Path, *, size: int = 1000) -> Path:
    """Write a model in Hugging Face layout."""
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights(size))
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 512}')
    (folder / "tokenizer.json").write_text('{"model": {}}')
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": {"content": "</s>"}}')
    (folder / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    (folder / "generation_config.json").write_text('{"temperature": 0.7, "top_k": 20, "do_sample": true}')
    return folder


@dataclass(frozen=True)
class Home:
    """A store, a key pair and a node's cache below one folder."""

    root: Path

    @property
    def store(self) -> FolderStore:
        return FolderStore(self.root / "artifacts")

    @property
    def signer(self) -> KeyPairSigner:
        return KeyPairSigner(self.root / "signing")

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    def publish(self, folder: Path, choices: Choices = CHOICES) -> Packed:
        publishing = Publishing(store=self.store, signer=self.signer, work=self.root, report=lambda _: None)
        return publish(folder, describe(folder, measure(folder), choices), publishing)

    def node(
        self, source: ArtifactSource | None = None, *, budget_bytes: int = 1 << 30, segment_bytes: int = 64
    ) -> Node:
        source = source or self.store
        return Node(
            source=source,
            cache=NodeCache(self.cache, budget_bytes=budget_bytes),
            fetcher=Fetcher(source, SystemClock(), segment_bytes=segment_bytes),
            verifier=PublicKeyVerifier(self.root / "signing" / PUBLIC),
        )


def home_with_model(root: Path, *, size: int = 1000) -> tuple[Home, Packed]:
    """Return a home with one signed version in its store."""
    home = Home(root)
    return home, home.publish(model_folder(root / "model", size=size))
