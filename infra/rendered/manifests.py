"""Reads rendered templates into Kubernetes objects. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

Object = Mapping[str, Any]
_NEW_DOCUMENT = re.compile(r"^---", re.MULTILINE)


class _Loader(yaml.CSafeLoader):
    """A reader that takes a bare ``=`` for the text that it is (prometheus-operator's CRDs have one)."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: str(node.value))


def objects(templates: Mapping[str, str]) -> Iterator[Object]:
    """Yield every object of rendered templates; a list yields its items. Notes for people are no manifests."""
    for name, text in templates.items():
        if name.endswith((".yaml", ".yml", ".tpl")):
            yield from _parsed(text)


def crds(texts: Iterable[str]) -> Iterator[Object]:
    """Yield the CRDs that a chart keeps outside its templates."""
    for text in texts:
        yield from _parsed(text)


def _parsed(text: str) -> Iterator[Object]:
    for document in _NEW_DOCUMENT.split(text):
        found = yaml.load(document, _Loader)  # noqa: S506  a safe loader
        if not isinstance(found, dict):
            continue
        if found.get("kind") == "List":
            yield from found["items"]
        else:
            yield found
