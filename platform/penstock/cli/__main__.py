"""``python -m penstock.cli`` is ``penstock``: how the supervisor starts its children with its own interpreter."""

from penstock.cli import main

main()
