"""The process that controls an engine: fetches files, starts, watches and stops it, and reports."""
