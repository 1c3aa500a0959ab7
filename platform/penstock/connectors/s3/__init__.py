"""Artifacts and payloads in S3, or in a store with S3's API."""
