"""A server made with the official SDK: `server.py stdio`, or `server.py PORT` for streamable HTTP at /mcp."""

import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("python-peer")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers"""
    return a + b


@server.tool()
def fail(why: str) -> str:
    """Always fails"""
    raise ToolError(why)


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
