"""Loads a version's handler: a shipped one, or the ``handler.py`` signed with the weights."""

import importlib
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import msgspec
import torch

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import HandlerSettings, Manifest
from penstock.formats.contents import HANDLER, MANIFEST
from penstock.worker.engines.torch.handler import Handler, Model
from penstock.worker.engines.torch.handlers import SHIPPED


def manifest_of(folder: Path) -> Manifest:
    return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)


def load(folder: Path, manifest: Manifest, device: str) -> Handler:
    settings = manifest.handler
    if settings is None:
        raise ArtifactRefused("the version names no handler, so the engine for classic models can't run it")
    model = Model(
        folder=folder,
        settings=settings,
        device=torch.device(device),
        dtype=dtype_of(manifest.engine.dtype),
        max_tokens=manifest.engine.max_model_len,
    )
    return _class_of(_module(folder, settings), settings.name)(model)


def dtype_of(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ArtifactRefused(f"{name!r} is no dtype to serve in; name float32 or bfloat16")
    return found


def labels_of(folder: Path, settings: HandlerSettings) -> tuple[str, ...]:
    return tuple((folder / settings.labels).read_text().splitlines()) if settings.labels else ()


def _module(folder: Path, settings: HandlerSettings) -> ModuleType:
    if settings.name != HANDLER:
        if settings.name not in SHIPPED:
            known = ", ".join(sorted(SHIPPED))
            raise ArtifactRefused(f"there is no handler {settings.name!r} here; there are {known}, and {HANDLER}")
        return importlib.import_module(SHIPPED[settings.name])
    spec = importlib.util.spec_from_file_location("penstock_handler", folder / HANDLER)
    if spec is None or spec.loader is None:
        raise ArtifactRefused(f"{HANDLER} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _class_of(module: ModuleType, name: str) -> type[Handler]:
    found = [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, Handler) and one.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise ArtifactRefused(f"{name} has {len(found)} classes of Handler; it must have exactly one")
    return found[0]
