"""What each pod may do in AWS, as statements: one module per kind of work. No role is made here."""
