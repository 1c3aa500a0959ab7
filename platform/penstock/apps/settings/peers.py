"""Settings of mutual TLS: a process's own certificate."""

from penstock.apps.settings.told import File, KeyFile, Told


class PeerSettings(Told):
    """The certificate of a process, and the authorities that it trusts; read again when the files change."""

    tls_cert_file: File = ""
    """This process's certificate, PEM, with the URI ``spiffe://<trust domain>/<role>`` among its names."""
    tls_key_file: KeyFile = ""
    """The key of that certificate, PEM."""
    tls_ca_file: File = ""
    """The authorities of this platform's certificates, PEM; all in the file are trusted."""
