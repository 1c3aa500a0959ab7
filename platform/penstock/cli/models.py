"""`penstock models …`: model versions."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import arguments, screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, err, out, tell_json
from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused
from penstock.domain.ids import ModelName
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import versions

app = typer.Typer(no_args_is_help=True, help="Model versions: immutable, signed, named by their content.")

_NAMES = ", ".join((*arguments.ENGINE_NUMBERS, *arguments.ENGINE_WORDS))
_ENGINE = f"An engine setting as NAME=VALUE; may be repeated: {_NAMES}."


Tenants = Annotated[
    str, typer.Option(help="The tenants that may use it, as A,B; to others the name does not exist. Default: all.")
]
Price = Annotated[
    str, typer.Option(help="Dollars per million tokens: PROMPT/CACHED/OUTPUT, for example 0.10/0.05/0.40.")
]
Plan = Annotated[str, typer.Option(help="Engine settings from the memory plan for this GPU; --engine overrides.")]
Store = Annotated[str, typer.Option(help="The artifact store as s3://BUCKET/PREFIX; default: PENSTOCK_ARTIFACT_STORE.")]
SigningKey = Annotated[
    str, typer.Option(help="The key in AWS KMS as awskms:///alias/NAME; default: the key pair of this home.")
]
Golden = Annotated[
    Path | None,
    typer.Option(
        help='A JSON file of questions that a worker must answer to be ready: [{"prompt": "2+2=", "expect": "4"}].'
    ),
]


@app.command("list")
@as_caller
def list_models(*, as_json: AsJson = False) -> None:
    """List the registered versions, oldest first."""
    found = operator(load()).get("/models")
    screen.tell(found, lambda: versions.listed(found["models"]), as_json=as_json)


@app.command("show")
@as_caller
def show_model(version: Annotated[str, typer.Argument(help="A version as name@digest.")]) -> None:
    """Show a version's manifest: files and digests, engine settings, price, licence, golden prompts."""
    tell_json(operator(load()).get(f"/models/{version}"))


@app.command("prepare")
def prepare_models() -> None:
    """Fetch, convert and sign the demo models without starting anything; quick if that is done already."""
    import asyncio

    from penstock.apps.models import ensure_demo

    for alias, packed in asyncio.run(ensure_demo(load(), _report)).items():
        out.print(f"{alias}  {packed.id}", highlight=False)


@app.command("push")
@as_caller
def push_model(  # noqa: PLR0913  one for each option
    source: Annotated[Path, typer.Argument(help="A folder in Hugging Face layout, a GGUF file, or a wheel with one.")],
    name: Annotated[str, typer.Option(help="The model's name.")],
    price: Price,
    licence: Annotated[str, typer.Option(help="The licence of the weights, for example Apache-2.0.")],
    origin: Annotated[str, typer.Option(help="The origin of the weights; default: the name of the source.")] = "",
    *,
    base: Annotated[str, typer.Option(help="For an adapter (a PEFT folder): its base, a version or alias.")] = "",
    tenants: Tenants = "",
    workers: Annotated[int, typer.Option(min=0, help="Workers to start; 1 turns an adapter on.")] = 0,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of one node over which each worker spreads the weights.")] = 1,
    engine: Annotated[list[str] | None, typer.Option(help=_ENGINE)] = None,
    golden: Golden = None,
    safety: Annotated[str, typer.Option(help="Safety packs for all of its requests, as A,B.")] = "",
    plan: Plan = "",
    itl_ms: Annotated[float, typer.Option(help="For --plan: the ITL objective, in ms.")] = 50.0,
    store: Store = "",
    signing_key: SigningKey = "",
) -> None:
    """Sign a model and register it as an immutable version.

    For example:

    * `penstock models push ./my-model --name my-model --price 0.10/0.05/0.40 --licence Apache-2.0 --workers 1`

    * `penstock models push ./my-model --name my-model … --engine max_num_seqs=64 --engine max_num_batched_tokens=1024`

    * `penstock models push ./my-lora --name my-lora --base my-model … --workers 1`, served by the workers of its base,
      which was pushed with `--engine adapter_slots=2 --engine adapter_rank=8`

    * `penstock models push ./my-model --name my-model … --store s3://bucket/models --signing-key awskms:///alias/models`

    * `penstock aliases set my-model my-model@0123456789ab`
    """
    import asyncio

    from penstock.apps.models import Destination, push
    from penstock.packaging.packing import Choices
    from penstock.packaging.push import register
    from penstock.packaging.reading import golden_of

    settings = load()
    api = operator(settings)
    choices = Choices(
        name=ModelName(name),
        price=arguments.price(price),
        licence=licence,
        origin=origin or source.name,
        tensor_parallel_size=gpus,
        engine_changes=_planned(source, plan, itl_ms / 1e3, gpus) | arguments.engine_settings(engine or []),
        golden=golden_of(golden) if golden else (),
        safety=tuple(one for one in safety.split(",") if one),
    )
    own, beside = arguments.tenants(tenants, api), arguments.base(base, api) if base else None
    to = Destination(store=store, signing_key=signing_key)
    packed = asyncio.run(push(settings, source, choices, _report, beside, to))
    register(packed, api.post, own)
    if workers:
        api.put(f"/deployments/{packed.id}", {"replicas": workers})
    out.print(packed.id, highlight=False)


@app.command("scale")
@as_caller
def scale_model(
    version: Annotated[str, typer.Argument(help="A version as name@digest.")],
    workers: Annotated[
        int, typer.Argument(min=0, help="The number of workers; 0 ends all after their running answers.")
    ],
) -> None:
    """Set the number of workers of a version; in a cluster, the least number.

    For example: `penstock models scale my-model@0123456789ab 3`
    """
    operator(load()).put(f"/deployments/{version}", {"replicas": workers})
    out.print(f"{version}: {workers} workers", highlight=False)


@app.command("tenants")
@as_caller
def own_model(
    version: Annotated[str, typer.Argument(help="A version as name@digest.")],
    tenants: Annotated[str, typer.Argument(help="The tenants that may use it, as A,B.")] = "",
    *,
    everybody: Annotated[bool, typer.Option("--everybody", help="Open it to all tenants again.")] = False,
) -> None:
    """Restrict a version to some tenants, or open it to everybody; to other tenants the name does not exist.

    An alias stays for the tenants that may use one of its versions. An adapter is for tenants that may use its base as
    well. Running requests end normally. Refused while the version takes part in a rollout.

    For example: `penstock models tenants my-lora@0123456789ab acme,beta`, or `… --everybody`
    """
    if bool(tenants) == everybody:
        raise CommandError("There are no tenants.", do="Name tenants as A,B, or give --everybody.")
    api = operator(load())
    own = arguments.tenants(tenants, api)
    changed = api.put(f"/models/{version}/tenants", {"tenants": own})
    out.print(f"{version} is open to {', '.join(own or ['everybody'])}", highlight=False)
    if own and changed["aliases"]:
        out.print(f"Other tenants no longer reach it by {', '.join(changed['aliases'])}.", highlight=False)


@app.command("pin")
@as_caller
def pin_model(version: Annotated[str, typer.Argument(help="A deployed version as name@digest.")]) -> None:
    """Keep a version's workers awake whichever versions need their memory, and wake those that sleep.

    An adapter's base stays awake, too, and never unloads it. Refused without memory for all pinned versions
    (PENSTOCK_POOL_BYTES), or if the base's engine would have no slot left for other adapters (adapter_slots).
    """
    operator(load()).put(f"/deployments/{version}/pin", {})
    out.print(f"{version} is pinned: its workers never sleep, and an adapter stays loaded", highlight=False)


@app.command("unpin")
@as_caller
def unpin_model(version: Annotated[str, typer.Argument(help="A pinned version as name@digest.")]) -> None:
    """Let a version's workers sleep, or unload an adapter, when it is unused and other versions need the memory."""
    operator(load()).delete(f"/deployments/{version}/pin")
    out.print(f"{version} is no longer pinned", highlight=False)


def _report(text: str) -> None:
    err.print(text, style="dim", highlight=False, markup=False)


def _planned(source: Path, gpu: str, itl_s: float, gpus: int) -> dict[str, int | str]:
    from penstock.cli.planned import settings_for

    if not gpu:
        return {}
    try:
        return settings_for(source, gpu, itl_s, gpus, _report)
    except ArtifactRefused as error:
        raise CommandError(
            f"There is no plan for {source}: {error}.", do=f"See penstock plan memory {source}."
        ) from error
