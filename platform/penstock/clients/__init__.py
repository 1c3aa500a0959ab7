"""Clients of a running platform: its chat and classic APIs, its operators' API, the wait for its workers."""
