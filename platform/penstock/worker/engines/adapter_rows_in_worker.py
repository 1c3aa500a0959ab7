"""Loaded by vLLM by name (``--worker-extension-cls``) in the process that runs the model; importing it installs the
patch.

An engine in which that fails does not start.
"""

from penstock.worker.engines import adapter_rows

adapter_rows.install()


class Extension:
    pass
