"""`penstock diagnose` around its rules: where measurements come from, how they are kept, how a verdict is shown."""
