"""Connections of the official Python SDK of MCP, of the generation that is installed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from news import Host

VERSION = version("mcp")


class ToolClient:
    """One connection. The SDK checks each answer against the schema that its tool lists, and raises if it does not fit."""

    def __init__(self, session: Any, tools: list[dict[str, Any]]) -> None:
        self._session = session
        self.tools = tools

    async def call(self, name: str, arguments: dict[str, Any], progress: Any = None) -> dict[str, Any]:
        """Calls a tool. Returns its structured content."""
        result = await self._send(name, arguments, progress)
        assert not result["isError"], f"{name}: {result['content']}"
        return result["structuredContent"]

    async def refused(self, name: str, arguments: dict[str, Any]) -> str:
        """Calls a tool that has to refuse. Returns the code of the refusal."""
        result = await self._send(name, arguments, None)
        assert result["isError"], f"{name} was not refused: {result}"
        return json.loads(result["content"][0]["text"])["code"]

    async def _send(self, name: str, arguments: dict[str, Any], progress: Any) -> dict[str, Any]:
        result = await self._session.call_tool(name, arguments, progress_callback=progress)
        return result.model_dump(by_alias=True)


@asynccontextmanager
async def connect(host: Host, transport: str) -> AsyncIterator[ToolClient]:
    """Connects to the host's `/mcp` (`http`), or starts `wharf mcp` (`stdio`)."""
    opener = connect_first if VERSION.startswith("1.") else connect_newest
    async with opener(host, transport) as session:
        listed = (await session.list_tools()).model_dump(by_alias=True)
        yield ToolClient(session, listed["tools"])


def stdio_server(host: Host) -> StdioServerParameters:
    return StdioServerParameters(command=host.wharf, args=["mcp", "--no-start", "--state-dir", host.state_dir])


@asynccontextmanager
async def connect_newest(host: Host, transport: str) -> AsyncIterator[Any]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    if transport == "stdio":
        async with Client(stdio_server(host)) as client:
            yield client
    else:
        async with httpx2.AsyncClient(headers=host.headers, timeout=None) as http:
            async with Client(streamable_http_client(f"{host.url}/mcp", http_client=http)) as client:
                yield client


@asynccontextmanager
async def connect_first(host: Host, transport: str) -> AsyncIterator[Any]:
    import httpx
    from mcp.client.streamable_http import streamable_http_client

    if transport == "stdio":
        async with stdio_client(stdio_server(host)) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                yield session
    else:
        async with httpx.AsyncClient(headers=host.headers, timeout=None) as http:
            async with streamable_http_client(f"{host.url}/mcp", http_client=http) as (read, write, _):
                async with ClientSession(read, write) as session:
                    await session.initialize()
                    yield session
