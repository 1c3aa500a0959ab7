"""Installs ``adapter_rows`` when imported: vLLM loads this module by name (``--worker-extension-cls``) in the
process that runs the model.

An engine in which the import fails does not start.
"""

from penstock.worker.engines import adapter_rows

adapter_rows.install()


class Extension:
    pass
