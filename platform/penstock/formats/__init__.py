"""Parsers of files and pictures that packaging, gateway and worker all read. They know no process and no policy."""
