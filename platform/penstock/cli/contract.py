"""`penstock contract`: what each process needs from whoever deploys it."""

import typer


def contract() -> None:
    """Print what each process needs: command, settings, ports, probes, folders, secrets, calls; as JSON.

    For example: `penstock contract > infra/contract.json`
    """
    from penstock.contract.written import text

    typer.echo(text(), nl=False)
