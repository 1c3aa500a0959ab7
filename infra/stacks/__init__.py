"""The five programs. Each builds components and publishes typed exports; `projects/` only calls them."""
