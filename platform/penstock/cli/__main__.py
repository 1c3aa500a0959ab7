"""``python -m penstock.cli`` is ``penstock``: supervisors start their children with their own interpreter."""

from penstock.cli import main

main()
