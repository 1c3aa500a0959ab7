"""Values for tenants: keys, plans, limits, budgets, leases, the ledger, the audit log."""
