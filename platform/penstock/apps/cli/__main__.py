"""``python -m penstock.apps.cli`` is ``penstock``: how the supervisor starts its children with its own interpreter."""

from penstock.apps.cli import main

main()
