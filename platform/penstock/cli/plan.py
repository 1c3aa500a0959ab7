"""`penstock plan …`: what a model needs, before anything is bought or started."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import screen
from penstock.cli.terminal import AsJson, explained
from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused
from penstock.views import memory_plan

if TYPE_CHECKING:
    from penstock.domain.models.architecture import Architecture

app = typer.Typer(no_args_is_help=True, help="Plans by formulas and measured curves; nothing is started.")
_CONFIG = "config.json"


@app.callback()
def _plans() -> None: ...


@app.command("memory")
def memory(  # noqa: PLR0913  one for each option
    model: Annotated[str, typer.Argument(help="A known model, a folder in Hugging Face layout, or its config.json.")],
    gpu: Annotated[str, typer.Option(help="The GPU, or a MIG slice of it: H100, L40S, A100-80/3g.40gb.")],
    *,
    tensor_parallel: Annotated[int, typer.Option("--tp", min=1, help="GPUs over which layers are cut.")] = 1,
    pipeline_parallel: Annotated[int, typer.Option("--pp", min=1, help="GPUs over which layers are dealt.")] = 1,
    context: Annotated[int, typer.Option(min=1, max=1 << 24, help="The longest context, in tokens.")] = 8192,
    prompt: Annotated[int, typer.Option(min=1, max=1 << 24, help="Prompt tokens of a typical request.")] = 1155,
    output: Annotated[int, typer.Option(min=1, max=1 << 24, help="Output tokens of a typical request.")] = 211,
    itl_ms: Annotated[float, typer.Option(min=0.1, help="The ITL objective, in milliseconds.")] = 50.0,
    kv: Annotated[str, typer.Option(help="The KV cache's numbers: bfloat16 or fp8.")] = "bfloat16",
    block: Annotated[int, typer.Option(min=1, max=1024, help="Tokens of a KV block.")] = 16,
    adapters: Annotated[str, typer.Option(help="LoRA adapters in one batch, as SLOTSxRANK: 8x16.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say what fills a GPU that runs this model, how many requests the rest holds, and the settings that follow.

    For example: penstock plan memory Llama-3.1-8B --gpu L40S --itl-ms 40
    """
    from penstock.control.capacity import nearest, told
    from penstock.control.capacity.gpus import gpu as known
    from penstock.control.capacity.memory_plan import KV_BYTES, Lengths, Target, plan

    if kv not in KV_BYTES:
        raise typer.BadParameter(f"{' or '.join(KV_BYTES)}", param_hint="--kv")
    slots, rank = _adapters(adapters)
    target = Target(
        context_tokens=context,
        lengths=Lengths(pairs=((prompt, output),)),
        itl_s=itl_ms / 1e3,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        kv_dtype=kv,
        block_tokens=block,
        adapter_slots=slots,
        adapter_rank=rank,
    )
    with explained():
        try:
            name, shape, size = _model(model)
            on = known(gpu)
            found = plan(shape, size, on, target)
            record = told.told(
                name,
                found,
                fitting=() if found.fits else nearest.fitting(shape, size, on, target),
                precisions=nearest.precisions(shape, size, on, target) if found.fits else (),
                slices=nearest.slices(shape, size, on, target) if found.fits else (),
            )
        except ArtifactRefused as error:
            raise CommandError(str(error), do="see penstock plan memory --help") from error
        screen.tell(record, lambda: memory_plan.shown(record), as_json=as_json)


def _model(text: str) -> tuple[str, "Architecture", int]:
    """Return the model's name, its shape, and the bytes of its weights: of its files if they are here."""
    from penstock.control.capacity.memory_plan import stored_bytes
    from penstock.packaging.architecture import architecture_of
    from penstock.packaging.known_models import MODELS
    from penstock.packaging.reading import read_json
    from penstock.packaging.weights import weight_bytes

    if (known := MODELS.get(text)) is not None:
        shape = architecture_of(known)
        return text, shape, stored_bytes(shape)
    path = Path(text)
    folder = path.parent if path.name == _CONFIG else path
    if not (folder / _CONFIG).is_file():
        raise ArtifactRefused(f"{text!r} is no folder with a config.json and no known model: {', '.join(MODELS)}")
    shape = architecture_of(read_json(folder, _CONFIG))
    return folder.resolve().name, shape, weight_bytes(folder) or stored_bytes(shape)


def _adapters(text: str) -> tuple[int, int]:
    if not text:
        return 0, 0
    slots, _, rank = text.partition("x")
    if not (slots.isdecimal() and rank.isdecimal() and len(text) < 10):  # noqa: PLR2004
        raise typer.BadParameter("SLOTSxRANK, for example 8x16", param_hint="--adapters")
    return int(slots), int(rank)
