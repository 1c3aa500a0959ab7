"""The key-encryption key in AWS KMS."""
