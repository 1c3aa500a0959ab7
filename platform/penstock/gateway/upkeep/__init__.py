"""The loops beside requests: they keep holds and the ledger, watch engines, report evidence, answer probes."""
