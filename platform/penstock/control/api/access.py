"""A key's permissions: a role applies to the key's own tenant; the operators' keys apply to the platform and all
tenants. Pure.

An answer about another tenant is the same whether that tenant exists or not.
"""

from collections.abc import Collection
from dataclasses import dataclass

from penstock.domain.errors import Forbidden
from penstock.domain.ids import Alias, TenantId
from penstock.domain.tenancy.tenant import OPERATORS, ApiKey, KeyRing, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCaller:
    key: ApiKey

    @property
    def is_operator(self) -> bool:
        return self.key.tenant == OPERATORS

    @property
    def reach(self) -> TenantId | None:
        return None if self.is_operator else self.key.tenant

    def sees(self, tenant: TenantId) -> bool:
        return self.is_operator or tenant == self.key.tenant

    def visible(self, ring: KeyRing) -> KeyRing:
        """Return the part of the key ring that the caller may see; only operators see organisations."""
        if self.is_operator:
            return ring
        return KeyRing(
            keys=tuple(key for key in ring.keys if self.sees(key.tenant)),
            tenants=tuple(one for one in ring.tenants if self.sees(one.id)),
        )

    def check_role(self, roles: Collection[Role]) -> None:
        if self.key.role not in roles:
            raise Forbidden(f"this needs a key with one of the roles: {', '.join(sorted(roles))}")

    def check_operator(self) -> None:
        if not self.is_operator:
            raise Forbidden(f"this needs a key of the tenant {OPERATORS}")

    def check_tenant(self, tenant: TenantId) -> None:
        if not self.sees(tenant):
            raise Forbidden("this key is of another tenant")

    def check_models(self, models: tuple[Alias, ...]) -> None:
        """Raise ``Forbidden`` if a new key would reach more models than the caller's own key."""
        mine = set(self.key.models)
        if mine and not (models and mine.issuperset(models)):
            raise Forbidden(f"this key may create keys for {', '.join(sorted(mine))} only")
