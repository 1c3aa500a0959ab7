"""A platform's home written by hand: two tenants' keys, one model, one worker. No database, no controller.

The gateway serves from the last good copies on disk, as it does when its database is away.
"""

import hashlib
import hmac
import json
import string
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
VERSION = "bench@0123456789ab"
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase

CHAT_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True, kw_only=True)
class Home:
    """Where it is, and two tenants' keys that open it."""

    root: Path
    key: str
    neighbours_key: str


def write(root: Path, worker_urls: list[str]) -> Home:
    platform_key = hashlib.sha256(b"bench").digest()
    _put(root / "platform.key", platform_key.hex().encode())
    pepper = hmac.digest(platform_key, b"penstock/pepper\x01", hashlib.sha256)
    key, neighbours_key = (_api_key(letter) for letter in "bn")
    tokenizer = _tokenizer()
    digest = hashlib.sha256(tokenizer).hexdigest()
    _put(root / "artifacts/blobs" / digest, tokenizer)
    keys = _keys({"bench": key, "neighbour": neighbours_key}, pepper)
    _put(root / "run/gateway/keys.json", json.dumps(keys).encode())
    _put(root / "run/gateway/packs.json", b'{"packs": [], "floor": []}')
    _put(root / "run/gateway/table.json", json.dumps(_table(worker_urls, digest)).encode())
    return Home(root=root, key=key, neighbours_key=neighbours_key)


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)


def _api_key(letter: str) -> str:
    stem = f"psk_{letter * 12}_{'k' * 43}"
    rest, check = zlib.crc32(stem.encode()), ""
    for _ in range(6):
        rest, digit = divmod(rest, len(_DIGITS))
        check = _DIGITS[digit] + check
    return stem + check


def _keys(by_tenant: dict[str, str], pepper: bytes) -> dict[str, object]:
    stored = {tenant: hmac.digest(pepper, key.encode(), hashlib.sha256).hex() for tenant, key in by_tenant.items()}
    return {
        "keys": [{"id": by_tenant[tenant][4:16], "tenant": tenant, "secret_hash": stored[tenant]} for tenant in stored],
        "tenants": [{"id": tenant, "name": tenant.title()} for tenant in stored],
    }


def _table(worker_urls: list[str], tokenizer_sha256: str) -> dict[str, object]:
    workers = [{"id": f"w{n}", "url": url, "state": "ready"} for n, url in enumerate(worker_urls)]
    version = {
        "id": VERSION,
        "digest": "0123456789ab" + "0" * 52,
        "task": "generate",
        "tier": "chat",
        "price": {"prompt_per_mtok": 1, "cached_per_mtok": 1, "output_per_mtok": 1},
        "max_model_len": 8192,
        "block_size": 32,
        "tokenizer_sha256": tokenizer_sha256,
        "special_tokens": [["bos_token", "<|im_start|>"], ["eos_token", "<|im_end|>"]],
        "chat_template": CHAT_TEMPLATE,
        "workers": workers,
    }
    route = {"alias": "bench", "shares": [{"version": VERSION, "weight": 10_000}]}
    return {"number": 1, "made_at": time.time(), "routes": [route], "versions": [version]}


def _tokenizer() -> bytes:
    """Return SmolLM2's tokenizer if the demo models are prepared, else a small one of the same kind."""
    for path in sorted(REPOSITORY.glob(".penstock/**/demo/**/tokenizer.json")):
        if b"<|im_start|>" in (blob := path.read_bytes()):
            return blob
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: PLC0415  only where it is needed

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=4_000, special_tokens=["<|im_start|>", "<|im_end|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train([str(path) for path in REPOSITORY.glob("*.md")], trainer)
    return tokenizer.to_str().encode()
