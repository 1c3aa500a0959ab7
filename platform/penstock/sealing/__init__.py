"""Sealing: what callers sent and got is ciphertext before it leaves the process. The one mechanism for it."""
