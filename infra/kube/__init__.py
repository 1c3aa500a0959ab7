"""Everything inside a cluster. Manifests are plain data, so that they are checked against the published schemas."""
