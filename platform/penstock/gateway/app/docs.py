"""The API document as a page at ``/docs``: Swagger UI from a Python package, without outside addresses.

The page knows no key: a visitor's key stays in the browser tab.
"""

from functools import lru_cache
from importlib.resources import files

from fastapi import FastAPI, Response

PACKAGE = "fastapi_offline"
"""The package with Swagger UI's files; nothing else of it is used."""
ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: the browser fetches only from this gateway."""
_HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Penstock: the API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({ url: "openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null });
"""


def add_docs(api: FastAPI) -> None:
    @api.get("/docs")
    async def page() -> Response:
        return Response(_PAGE, media_type="text/html", headers=_HEADERS)

    @api.get("/docs/start.js")
    async def start() -> Response:
        return Response(_START, media_type="text/javascript", headers=_HEADERS)

    for name, media_type in ASSETS.items():
        _add_asset(api, name, media_type)


def _add_asset(api: FastAPI, name: str, media_type: str) -> None:
    @api.get(f"/docs/{name}")
    def asset() -> Response:  # in a thread: the first time it is read from disk
        return Response(_read(name), media_type=media_type, headers={**_HEADERS, "cache-control": "max-age=3600"})


@lru_cache(len(ASSETS))
def _read(name: str) -> bytes:
    return files(PACKAGE).joinpath("static", name).read_bytes()
