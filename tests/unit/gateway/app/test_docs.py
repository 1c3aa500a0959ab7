"""The API document for people comes from this gateway alone."""

import re
from importlib.util import find_spec
from urllib.parse import urljoin

import pytest

from penstock.gateway.app.docs import PACKAGE
from tests.unit.gateway.app.test_routes import ask

ADDRESS = re.compile(r"""(?:href|src|url|action)["']?\s*[=:]\s*["']([^"']+)["']""")
locked = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="this environment is older than the lock: make setup")


async def test_the_page_names_no_outside_address() -> None:
    """Neither the page nor its own script names another host, and the browser is told to ask none."""
    for path in ("/docs", "/docs/start.js"):
        answer = await ask(path, auth=False)
        assert answer.status_code == 200
        assert not re.search(r"https?:|//[a-z]", answer.text)
        policy = dict(part.split(maxsplit=1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert {word for words in policy.values() for word in words.split()} <= {
            "'none'", "'self'", "'unsafe-inline'", "data:",
        }  # fmt: skip
        assert policy["script-src"] == policy["connect-src"] == "'self'"


@locked
async def test_everything_the_page_loads_is_here() -> None:
    """Each script, style and document that the page names answers, without a key, with its own type."""
    page, script = (await ask("/docs", auth=False)).text, (await ask("/docs/start.js", auth=False)).text
    named = {urljoin("/docs", address) for address in ADDRESS.findall(page + script)}
    assert named == {"/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js", "/docs/start.js", "/openapi.json"}
    types = {path: (await ask(path, auth=False)).headers["content-type"].partition(";")[0] for path in named}
    assert types == {
        "/docs/swagger-ui.css": "text/css",
        "/docs/swagger-ui-bundle.js": "text/javascript",
        "/docs/start.js": "text/javascript",
        "/openapi.json": "application/json",
    }
    assert "SwaggerUIBundle" in (await ask("/docs/swagger-ui-bundle.js", auth=False)).text


async def test_nothing_else_of_the_package_is_served() -> None:
    """A path out of the assets' folder is not found."""
    for path in ("/docs/..%2fcore.py", "/docs/redoc.standalone.js", "/docs/"):
        assert (await ask(path, auth=False)).status_code == 404
