"""The local disk between a gateway and the ledger: no row is lost with a process or a database."""
