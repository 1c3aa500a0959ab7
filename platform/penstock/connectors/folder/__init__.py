"""The artifact store in a local folder: the default, and the shape of the one in S3."""
