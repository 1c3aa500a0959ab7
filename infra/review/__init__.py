"""A second opinion by independent tools: the graph as Terraform, judged by its provider and checkov."""
