"""A victim tenant and those that must not reach what is its own, made over the operator API of a running platform."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import httpx

from tests.support.patience import until
from tests.support.platforms.local import Platform

ADMIN = "/admin/v1"
NEVER = "f" * 24
"""The end of an id that no object has; deferred work has its own matrix."""
FORGED = "psk_000000000000_" + "0" * 49


def key_of(platform: Platform, tenant: str, **plan: object) -> str:
    """Make a tenant; return a key of it that the gateway knows."""
    platform.act("POST", "/tenants", {"id": tenant, "plan": plan})
    key = str(platform.act("POST", "/keys", {"tenant": tenant, "role": "infer"})["secret"])

    def is_known() -> bool:
        with platform.http(key) as asked:
            return asked.get("/v1/models").status_code == httpx.codes.OK

    until("the gateway knows the key", is_known)
    return key


@dataclass(kw_only=True)
class Strangers:
    """``infer``, ``scoped``, ``auditor``, ``admin`` are the stranger's secrets; the victim's key id is ``key``."""

    platform: Platform
    name: str
    infer: str = ""
    scoped: str = ""
    auditor: str = ""
    admin: str = ""
    revoked: str = ""
    victims: str = ""
    made: list[str] = field(default_factory=list)
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30, trust_env=False))

    def prepare(self) -> None:
        self.act("POST", "/orgs", {"id": self.victim, "plan": {"requests_per_min": 1000}})
        self.act("POST", "/tenants", {"id": self.victim, "org": self.victim, "plan": {"weight": 7}})
        self.act("POST", "/tenants", {"id": self.stranger})
        self.victims = self.mint(self.victim)
        self.infer = self.mint(self.stranger)
        self.scoped = self.mint(self.stranger, models=["minilm"])
        self.auditor = self.mint(self.stranger, role="auditor")
        self.admin = self.mint(self.stranger, role="admin")
        self.revoked = self.mint(self.stranger, role="admin")
        self.act("POST", f"/keys/{key_id(self.revoked)}/revoke")

    def tenant(self, name: str) -> str:
        """Make one more tenant, with our prefix in its name, and return a key of its own that may infer."""
        self.act("POST", "/tenants", {"id": f"{self.name}-{name}"})
        return self.mint(f"{self.name}-{name}")

    def leave(self) -> None:
        """Revoke every key that was made here; tenants stay, as they always do."""
        for secret in self.made:
            if secret != self.revoked:
                self.act("POST", f"/keys/{key_id(secret)}/revoke")
        self.http.close()

    @property
    def victim(self) -> str:
        """The victim's tenant, and the name of its organisation."""
        return f"{self.name}-victim"

    @property
    def stranger(self) -> str:
        return f"{self.name}-stranger"

    @cached_property
    def objects(self) -> dict[str, str]:
        """Values for the parameters of addresses: objects that exist, of the victim or of no tenant."""
        version = self.act("GET", "/models")["models"][0]["id"]
        return {
            "version": version,
            "alias": "smollm2",
            "model": "smollm2",
            "org": self.victim,
            "tenant": self.victim,
            "key": key_id(self.victims),
            "kind": "tenant",
            "name": self.victim,
            "request_id": self.use(),
            "deletion": "1",
            "job": f"job_{NEVER}",
            "file": f"file-{NEVER}",
            "batch": f"batch_{NEVER}",
            "response": f"resp_{NEVER}",
            "webhook": f"we_{NEVER}",
            "named": f"we_{NEVER}",
            "delivery": f"whd_{NEVER}",
            "rollout": "ro-0123456789",
            "pack": "secrets",
            "move": "abort",
            "worker": self.act("GET", "/workers")["workers"][0]["id"],
        }

    def filled(self, path: str) -> str:
        """Return the address with every parameter replaced; an unknown one is a ``KeyError``."""
        return re.sub(r"\{(\w+)\}", lambda match: self.objects[match[1]], path)

    def state(self) -> dict[str, Any]:
        """Return everything that a stranger might have changed."""
        names = ("/orgs", "/tenants", "/keys", "/aliases", "/deployments", "/models", "/budgets", "/audit?limit=1000")
        found = {name: self.act("GET", name) for name in names}
        acts = found["/audit?limit=1000"]
        acts["acts"] = [one for one in acts["acts"] if one["what"] != "access.refused"]  # the refusal's own row
        return found

    def mint(self, tenant: str, **fields: object) -> str:
        secret = str(self.act("POST", "/keys", {"tenant": tenant, **fields})["secret"])
        self.made.append(secret)
        return secret

    def use(self) -> str:
        """Ask a model as the victim, and return the request's id."""
        body = {"model": "smollm2", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        answer = self.ask(self.platform.url, self.victims, "POST", "/v1/chat/completions", body)
        return str(answer.raise_for_status().headers["x-request-id"])

    def act(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        answer = self.ask(self.platform.controller_url, self.platform.admin_key, method, ADMIN + path, body)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def ask(self, base: str, secret: str, method: str, path: str, body: object = None) -> httpx.Response:
        """Ask with a credential; an empty one means none."""
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        return self.http.request(method, base + path, headers=headers, json=body)


def key_id(secret: str) -> str:
    """Return the id inside an API key."""
    return secret.split("_")[1]
