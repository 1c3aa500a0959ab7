"""Billing: the gate's token count is billed, whatever the engine's answer reports."""
