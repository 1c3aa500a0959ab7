"""The gateway's ASGI application: which path belongs to which API, pages, the OpenAPI document."""
