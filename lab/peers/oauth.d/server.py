"""An MCP server that wants OAuth, made with the official SDK, which is its authorization server too: registration, PKCE, consent, refresh tokens that are used once.

server.py PORT LIFETIME_S: access tokens are valid for so long. Prints {"url"} when it listens. POST /control/revoke makes all tokens worthless.
"""

import json
import secrets
import sys
import time

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

PORT, LIFETIME_S = int(sys.argv[1]), int(sys.argv[2])
BASE = f"http://127.0.0.1:{PORT}"
RESOURCE = f"{BASE}/mcp"


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.asked: dict[str, tuple[OAuthClientInformationFull, AuthorizationParams]] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.counts = {"registered": 0, "consents": 0, "exchanged": 0, "refreshed": 0, "reused": 0}
        self.used: set[str] = set()

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.counts["registered"] += 1
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        ticket = secrets.token_urlsafe(16)
        self.asked[ticket] = (client, params)
        return f"{BASE}/consent?ticket={ticket}"

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        self.counts["exchanged"] += 1
        return self.issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        if refresh_token in self.used:
            self.counts["reused"] += 1
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        # Somebody else may use it at the same time; only one of them gets an answer.
        del self.refresh[refresh_token.token]
        self.used.add(refresh_token.token)
        self.counts["refreshed"] += 1
        return self.issue(client.client_id, scopes or refresh_token.scopes, refresh_token.resource)

    async def load_access_token(self, token):
        known = self.access.get(token)
        return known if known and known.expires_at > time.time() else None

    async def revoke_token(self, token):
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = f"access-{secrets.token_urlsafe(24)}", f"refresh-{secrets.token_urlsafe(24)}"
        until = int(time.time()) + LIFETIME_S
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes, expires_at=until, resource=resource, subject="ada")
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource, subject="ada")
        return OAuthToken(access_token=access, refresh_token=refresh, token_type="Bearer", expires_in=LIFETIME_S, scope=" ".join(scopes))


provider = Provider()
server = MCPServer(
    "notes",
    auth_server_provider=provider,
    auth=AuthSettings(
        issuer_url=BASE,
        resource_server_url=RESOURCE,
        validate_token_resource=True,
        required_scopes=["notes"],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["notes"], default_scopes=["notes"]),
    ),
)


@server.tool()
def whoami() -> str:
    """Says whose token this is, and for which resource"""
    token = get_access_token()
    return f"{token.subject} {token.resource} {' '.join(token.scopes)}"


@server.custom_route("/consent", methods=["GET", "POST"])
async def consent(request: Request) -> Response:
    ticket = request.query_params["ticket"]
    client, params = provider.asked[ticket]
    if request.method == "GET":
        return HTMLResponse(f'<p>May {client.client_name} use your notes?</p><form method="post"><button name="yes" value="1">Agree</button><button name="no" value="1">Refuse</button></form>')
    form = await request.form()
    del provider.asked[ticket]
    if "yes" not in form:
        return RedirectResponse(construct_redirect_uri(str(params.redirect_uri), error="access_denied", error_description="Ada said no", state=params.state), 303)
    provider.counts["consents"] += 1
    code = secrets.token_urlsafe(24)
    provider.codes[code] = AuthorizationCode(
        code=code,
        scopes=params.scopes or ["notes"],
        expires_at=time.time() + 60,
        client_id=client.client_id,
        code_challenge=params.code_challenge,
        redirect_uri=params.redirect_uri,
        redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        resource=params.resource,
        subject="ada",
    )
    return RedirectResponse(construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state), 303)


@server.custom_route("/control/{what}", methods=["POST"])
async def control(request: Request) -> Response:
    if request.path_params["what"] == "revoke":
        provider.access.clear()
        provider.refresh.clear()
    elif request.path_params["what"] == "expire":
        for token in provider.access.values():
            token.expires_at = 0
    return JSONResponse(provider.counts)


if __name__ == "__main__":
    print(json.dumps({"url": RESOURCE}), flush=True)
    server.run(transport="streamable-http", host="127.0.0.1", port=PORT)
