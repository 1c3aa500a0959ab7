"""The settings of jobs, batches, files and webhooks, which gateways accept and jobs runners run."""

from typing import Annotated

from pydantic import AfterValidator, Field

from penstock.settings import forms
from penstock.settings.told import Secret, Told


class DeferredSettings(Told):
    """Whether jobs, batches, files and webhooks are offered, and the store of their bytes."""

    job_runners: int = Field(default=1, ge=0, le=32)
    """Jobs runners that `penstock up` starts. 0 turns jobs, batches, files and webhooks off: their routes
    answer 404."""
    webhook_networks: Annotated[str, AfterValidator(forms.networks)] = ""
    """Networks of your own that webhooks may reach beside the public Internet, at any port and without TLS:
    `10.20.0.0/16,192.0.2.7/32`. Empty is the public Internet on port 443 alone."""
    webhook_proxy: Annotated[Secret, AfterValidator(forms.proxy)] = ""
    """An HTTP proxy through which webhooks leave: http://HOST:PORT. It resolves names, and has to refuse addresses of
    the inside (Smokescreen does)."""
    payloads_url: Annotated[str, AfterValidator(forms.bucket)] = ""
    """``s3://bucket/prefix`` for requests and results of jobs, sealed; empty means the folder ``payloads`` in the
    home."""
    payloads_endpoint: str = ""
    """The S3 endpoint of the payloads if it is not AWS's."""
