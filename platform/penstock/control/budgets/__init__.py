"""Budgets in the controller: alarms, and counters that agree with the ledger. Admission is the gateways'."""
