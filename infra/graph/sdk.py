"""What the SDK knows of a type, and how the engine spells its names."""

import functools
import importlib
import inspect

import pulumi


def camel(name: str) -> str:
    """The SDK's snake name as the engine spells it."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@functools.cache
def resource_class(token: str) -> type[pulumi.Resource] | None:
    """The SDK class of a type token such as `aws:eks/cluster:Cluster`; `None` for other packages."""
    package, module, name = token.split(":")
    if package != "aws":
        return None
    found = getattr(importlib.import_module(f"pulumi_aws.{module.split('/', maxsplit=1)[0]}"), name)
    return found if inspect.isclass(found) and issubclass(found, pulumi.Resource) else None
