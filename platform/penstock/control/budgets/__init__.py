"""Budgets in the controller: alarms, and counters corrected from the ledger. Gateways admit requests by these counters.
"""
