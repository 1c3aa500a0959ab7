"""A second opinion from people who never saw our code: the graph as Terraform, judged by provider and checkov."""
