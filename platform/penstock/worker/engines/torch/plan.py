"""Builds the torch engine's command line from a manifest: pure, so that a test can read it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.domain.ids import VersionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """``slo_s`` is the answer time promised by the tier, 0 without one."""

    version: VersionId
    folder: Path
    host: str
    port: int
    device: str = "cpu"
    threads: int = 1
    slo_s: float = 0.0


def arguments(serving: Serving) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in asdict(serving).items())


def of_arguments(argv: Sequence[str]) -> Serving:
    given = dict(one.split("=", 1) for one in argv)
    return Serving(
        version=VersionId(given["version"]),
        folder=Path(given["folder"]),
        host=given["host"],
        port=int(given["port"]),
        device=given["device"],
        threads=int(given["threads"]),
        slo_s=float(given["slo_s"]),
    )


def preprocessing_threads(threads: int) -> int:
    """Pillow, the tokenizer and torch release the interpreter lock."""
    return 2 * max(1, threads)
