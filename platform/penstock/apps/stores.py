"""Which artifact store, signer and verifier the settings name. Each import costs something, so each stands alone."""

from penstock.apps.settings import Settings
from penstock.packaging.ports import ArtifactStore, Signer
from penstock.worker.artifacts.ports import SignatureVerifier


def open_store(settings: Settings) -> ArtifactStore:
    """Return the artifact store: the home's folder, or S3. Satisfies the gateway's and the worker's ports too."""
    if settings.artifact_store:
        from penstock.adapters.s3.store import S3Store

        return S3Store(settings.artifact_store, endpoint=settings.artifact_endpoint)
    from penstock.adapters.folder.store import FolderStore

    return FolderStore(settings.paths.artifacts)


def open_signer(settings: Settings) -> Signer:
    """Return the signer with the home's key pair, which is made at the first call."""
    from penstock.adapters.signing.openssf import KeyPairSigner

    return KeyPairSigner(settings.paths.signing)


def open_verifier(settings: Settings) -> SignatureVerifier:
    """Return the verifier with the home's public key."""
    from penstock.adapters.signing.keys import PUBLIC
    from penstock.adapters.signing.openssf import PublicKeyVerifier

    return PublicKeyVerifier(settings.paths.signing / PUBLIC)
