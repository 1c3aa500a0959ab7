"""Signatures: of model versions by OpenSSF Model Signing, of the audit chain's heads."""
