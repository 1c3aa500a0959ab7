"""Clients of a running platform: its chat and classic APIs, its operators' API, and waiting for its workers."""
