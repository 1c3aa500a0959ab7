"""Sends webhooks to callers' own receivers."""
