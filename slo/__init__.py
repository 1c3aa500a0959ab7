"""The service level objectives: ``specs/`` declares them, everything else here is made from them."""
