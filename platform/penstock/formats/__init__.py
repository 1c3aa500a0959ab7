"""Parsers of file and picture formats that packaging, gateway and worker read. They know no process and no policy."""
