"""What vLLM loads by name (``--worker-extension-cls``) in the process that runs the model: rows get their own adapters.

Only to be loaded means something, so importing it is what installs. An engine where that fails does not start.
"""

from penstock.worker.engines import adapter_rows

adapter_rows.install()


class Extension:
    """What vLLM adds to its worker: nothing."""
