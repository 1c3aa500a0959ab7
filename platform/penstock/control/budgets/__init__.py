"""Budgets in the controller: alarms, and the counters by which gateways admit requests, corrected from the ledger."""
