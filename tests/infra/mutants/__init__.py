"""Mistakes of a tired engineer in the infrastructure's source, one at a time, and whether the proofs notice."""
