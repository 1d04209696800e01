"""A client made with the official SDK: drives the registry at the given address, by both lifecycles. Prints one JSON object."""

import asyncio
import json
import sys

from mcp import Client


async def drive(address: str, mode: str) -> dict:
    async with Client(address, mode=mode) as client:
        tools = (await client.list_tools()).tools
        names = sorted(tool.name for tool in tools)
        good = await client.call_tool("fixture.echo", {"text": "from python"})
        bad = await client.call_tool("fixture.echo", {})
        return {
            "tools": names,
            "said": good.content[0].text,
            "bad_is_error": bad.is_error,
            "bad_words": bad.content[0].text,
            "version": client.protocol_version,
        }


async def main() -> None:
    address = sys.argv[1]
    print(json.dumps({mode: await drive(address, mode) for mode in ["legacy", "auto"]}))


asyncio.run(main())
