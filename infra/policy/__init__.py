"""Invariants: what must hold in every stack, written once, run over captured graphs and at `pulumi up`."""
