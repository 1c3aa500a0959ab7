"""Parsers of files and pictures that packaging, gateway and worker read alike. They know no process and no policy."""
