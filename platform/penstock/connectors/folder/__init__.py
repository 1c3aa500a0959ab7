"""The artifact store in a local folder: the default, with the same layout as in S3."""
