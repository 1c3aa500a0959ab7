"""Background loops beside requests: holds, the ledger, engine health, evidence, probes."""
