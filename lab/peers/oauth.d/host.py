"""An MCP host made with the official SDK, which signs in with OAuth: host.py ADDRESS REDIRECT [PAUSE_S].

Prints the address at which a person agrees, reads the address the browser was sent to, and prints one JSON object. With a pause, it lists the tools again after it.
"""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlparse

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

ADDRESS, REDIRECT = sys.argv[1], sys.argv[2]
PAUSE_S = float(sys.argv[3]) if len(sys.argv) > 3 else 0


class Memory(TokenStorage):
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    issued = 0

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        Memory.issued += 1
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


asked = 0


async def show(address: str) -> None:
    global asked
    asked += 1
    print(address, flush=True)


async def returned() -> AuthorizationCodeResult:
    line = await asyncio.to_thread(sys.stdin.readline)
    query = parse_qs(urlparse(line.strip()).query)
    return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query.get("iss", [None])[0])


async def main() -> None:
    metadata = OAuthClientMetadata(client_name="a host", redirect_uris=[REDIRECT], grant_types=["authorization_code", "refresh_token"], response_types=["code"], token_endpoint_auth_method="none")
    auth = OAuthClientProvider(ADDRESS, metadata, Memory(), show, returned)
    async with httpx2.AsyncClient(auth=auth, timeout=60, follow_redirects=True) as http:
        async with Client(streamable_http_client(ADDRESS, http_client=http)) as client:
            names = sorted(tool.name for tool in (await client.list_tools()).tools)
            answer = await client.call_tool("direct", {"question": "What does OAuth protect here?"})
            if PAUSE_S:
                await asyncio.sleep(PAUSE_S)
                await client.list_tools()
            print(json.dumps({"tools": names, "is_error": answer.is_error, "text": answer.content[0].text, "asked": asked, "issued": Memory.issued}), flush=True)


asyncio.run(main())
