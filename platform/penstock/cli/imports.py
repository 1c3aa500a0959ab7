"""`penstock import …`: turns another gateway's configuration into acts of the operators' API."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, out, tell_json
from penstock.clients.operator import Operator
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.formats.documents import DocumentRefused, yaml_of
from penstock.local.connections import operator
from penstock.settings import load

app = typer.Typer(no_args_is_help=True, help="Import the configuration of another gateway.")


@app.callback()
def _only_commands() -> None:
    """Import the configuration of another gateway."""


@app.command("litellm")
@as_caller
def litellm(
    config: Annotated[Path, typer.Argument(help="LiteLLM's config.yaml.")],
    *,
    teams: Annotated[Path | None, typer.Option(help="LiteLLM's answer to /team/list, for tenants.")] = None,
    keys: Annotated[
        Path | None, typer.Option(help="LiteLLM's answer to /key/list?return_full_object=true, for keys.")
    ] = None,
    to: Annotated[
        list[str] | None, typer.Option(help="NAME=VERSION or NAME=ALIAS: what a model name leads to; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make aliases of a LiteLLM proxy's models, tenants of its teams, and new keys in place of its keys.

    A model name becomes an alias if a version here has the model's name, or if `--to` names one. What could not be
    taken is said line by line. What is here already stays as it is. Each secret is shown this one time: LiteLLM keeps
    hashes, so callers get new keys.

    For example:

    * `penstock import litellm config.yaml --dry-run`

    * `penstock import litellm config.yaml --teams teams.json --keys keys.json --to gpt-4o=big@0123456789ab`
    """
    from penstock.cli import litellm as reader

    api = operator(load())
    given = dict(_pair(text) for text in to or ())
    found = reader.read(_config(config), _listed(teams, "teams"), _listed(keys, "keys"), _here(api), given)
    done = []
    for call in found.calls:
        answer = {} if dry_run else _call(api, call.method)(call.path, dict(call.body))
        done.append({"does": call.says, **({"secret": answer["secret"]} if "secret" in answer else {})})
        if not as_json:
            _say("would make" if dry_run else "made", call.says, answer)
    if as_json:
        left = [{"where": where, "why": why} for where, why in found.left]
        tell_json({"dry_run": dry_run, "done": done, "not_taken": left})
        return
    for where, why in found.left:
        out.print(f"not taken: {where}: {why}", markup=False, highlight=False, soft_wrap=True)


def _say(word: str, says: str, answer: dict[str, Any]) -> None:
    secret = f": {answer['secret']}" if "secret" in answer else ""
    out.print(f"{word} {says}{secret}", markup=False, highlight=False, soft_wrap=True)


def _call(api: Operator, method: str) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    return api.put if method == "PUT" else api.post


def _here(api: Operator) -> Any:  # noqa: ANN401  ``litellm.Here``, which is imported in the command
    from penstock.cli.litellm import Here

    versions: dict[str, list[str]] = {}
    for one in api.get("/models")["models"]:
        versions.setdefault(one["name"], []).append(one["id"])
    return Here(
        versions=versions,
        aliases={one["alias"]: one["shares"] for one in api.get("/aliases")["aliases"]},
        tenants=frozenset(one["id"] for one in api.get("/tenants")["tenants"]),
        orgs=frozenset(one["id"] for one in api.get("/orgs")["orgs"]),
        now=SystemClock().now(),
    )


def _pair(text: str) -> tuple[str, str]:
    name, _, version = text.partition("=")
    if not name or not version:
        raise CommandError(
            f"{text!r} does not say which version or alias it means.",
            do="Write NAME=VERSION, such as gpt-4o=big@0123456789ab.",
        )
    return name, version


def _read(file: Path) -> Any:  # noqa: ANN401  YAML or JSON
    try:
        return yaml_of(file.read_bytes())
    except DocumentRefused as error:
        raise CommandError(f"{file}: {error}.", do="Name LiteLLM's own file.") from error


def _config(file: Path) -> dict[str, Any]:
    found = _read(file)
    if not isinstance(found, dict):
        raise CommandError(f"{file} is no configuration of LiteLLM.", do="Name its config.yaml.")
    return {str(name): value for name, value in found.items()}


def _listed(file: Path | None, name: str) -> list[dict[str, Any]]:
    found = [] if file is None else _read(file)
    found = found.get(name) if isinstance(found, dict) else found
    return list(_objects(found, file, name))


def _objects(found: object, file: Path | None, name: str) -> Iterator[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise CommandError(f"{file} holds no list of {name}.", do="Save LiteLLM's whole answer.")
    yield from found
