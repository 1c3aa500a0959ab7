"""Valkey or Redis: limits shared by all gateways, one atomic script per decision."""
