"""Identifiers, as distinct types, so that one can't be passed for another."""

from typing import NewType

OrgId = NewType("OrgId", str)
TenantId = NewType("TenantId", str)
KeyId = NewType("KeyId", str)
RequestId = NewType("RequestId", str)
ModelName = NewType("ModelName", str)
"""A model's registered name, for example ``smollm2-135m-instruct``."""
VersionId = NewType("VersionId", str)
"""``name@digest12``: the name and the first 12 hex digits of the content digest."""
WorkerId = NewType("WorkerId", str)
Alias = NewType("Alias", str)
"""What callers put into ``model``; the routing table maps it to versions."""

NO_VERSION = VersionId("")
KINDS = "(?:chatcmpl-|cmpl-|embd-|resp_|msg_)"
"""A regex of what engines' answers put before the id of their request."""
