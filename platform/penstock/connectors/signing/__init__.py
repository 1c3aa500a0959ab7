"""Signatures of model versions by OpenSSF Model Signing."""
