"""The table of fields: verdicts by hand, shapes from SDKs and engine, joined into one file."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import yaml

import penstock.gateway.openai
from penstock.domain.serving.request import JSON_APIS, Api
from scripts.fields import sources
from scripts.fields.deciding import Deciding, each
from scripts.fields.shapes import merged

FOLDER = Path(penstock.gateway.openai.__file__).parent / "verdicts"
FILE = FOLDER / "table.jsonl"
EVERYWHERE = "everywhere"
CONVERSATION = "conversation"
_WITH_MESSAGES = frozenset({Api.CHAT, Api.EMBEDDINGS, Api.CLASSIFY})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiTable:
    """``root`` is the request's own node; ``missing`` rows have no verdict, ``unused`` ones no field."""

    root: dict[str, object]
    missing: list[str]
    unused: list[str]
    shared: set[str] = field(default_factory=set)


def rows(name: str) -> dict[str, str]:
    found = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    assert isinstance(found, dict)  # noqa: S101  a file of ours
    return {str(path): str(verdict) for path, verdict in found.items()}


def name_of(api: Api) -> str:
    return api.name.lower()


def compiled() -> dict[Api, ApiTable]:
    everywhere, conversation = rows(EVERYWHERE), rows(CONVERSATION)
    tables: dict[Api, ApiTable] = {}
    for api in JSON_APIS:
        own = rows(name_of(api))
        shared = everywhere | (conversation if api in _WITH_MESSAGES else {})
        deciding = Deciding(shared | own)
        root = deciding.decided(merged(sources.schemas(api)))
        tables[api] = ApiTable(
            root=root,
            missing=deciding.missing,
            unused=sorted(row for row in own if not set(each(row)) <= deciding.used),
            shared=set(deciding.used),
        )
    return tables


def missing(tables: dict[Api, ApiTable]) -> list[str]:
    return [f"{name_of(api)}: {path}" for api, table in tables.items() for path in table.missing]


def unused(tables: dict[Api, ApiTable]) -> list[str]:
    shared = set().union(*(table.shared for table in tables.values()))
    own = [f"{name_of(api)}: {path}" for api, table in tables.items() for path in table.unused]
    return own + [
        f"{name}: {path}" for name in (EVERYWHERE, CONVERSATION) for path in rows(name) if not set(each(path)) <= shared
    ]


def written(tables: dict[Api, ApiTable]) -> str:
    lines = ({"api": str(api), "root": one.root, "counted": sources.counted(api)} for api, one in tables.items())
    return "".join(f"{json.dumps(line, sort_keys=True, separators=(',', ':'))}\n" for line in lines)
