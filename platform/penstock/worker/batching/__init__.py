"""Batching of classic models' requests: pure policies and one thin collector, without torch or HTTP."""
