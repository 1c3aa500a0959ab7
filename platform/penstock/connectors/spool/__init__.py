"""The local disk between a gateway and the ledger: no row is lost if a process or the database fails."""
