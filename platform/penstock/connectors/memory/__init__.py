"""Every store in this process: for tests, for one gateway, and as the twin that contracts compare with."""
