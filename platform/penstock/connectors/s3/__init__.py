"""The artifact store in S3, or in what speaks its language."""
