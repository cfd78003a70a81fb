#!/usr/bin/env python3
"""The official Python MCP client against a running host, over HTTP and over `wharf mcp`. See mcp-clients.sh."""
import asyncio
import json
import sys

import httpx2
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

TOOLS = {
    "start_agent_session", "prompt_agent_session", "list_agent_sessions", "get_agent_session_output",
    "kill_agent_session", "wait_agent_session", "answer_agent_session",
}


async def call(client, name, arguments=None, **options):
    result = await client.call_tool(name, arguments or {}, **options)
    assert not result.is_error, (name, result)
    return result.structured_content


async def drive(client, directory):
    hello = await client.initialize()
    print("  initialize:", hello.protocol_version, hello.server_info.name, hello.server_info.version)
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS, tools
    assert all(tool.input_schema and tool.output_schema and tool.annotations for tool in tools)

    first = {"adapter": "scripted", "cwd": directory, "prompt": "echo one"}
    session = (await call(client, "start_agent_session", first))["id"]
    waited = await call(client, "wait_agent_session", {"sessionId": session})
    assert waited["outcome"] == "turn_ended" and waited["lines"][0] == "one", waited

    news = []

    async def note(progress, total, message):
        news.append(progress)

    await call(client, "prompt_agent_session", {"sessionId": session, "prompt": "pause 2500; echo two"})
    refused = await client.call_tool("prompt_agent_session", {"sessionId": session, "prompt": "echo three"})
    assert refused.is_error and json.loads(refused.content[0].text)["code"] == "turn_in_progress", refused
    waited = await call(client, "wait_agent_session", {"sessionId": session}, progress_callback=note)
    assert waited["outcome"] == "turn_ended" and waited["stopReason"] == "end_turn", waited
    assert len(news) >= 2 and news == sorted(set(news)), news
    print("  progress while waiting:", len(news))

    await call(client, "prompt_agent_session", {"sessionId": session, "prompt": "ask"})
    waited = await call(client, "wait_agent_session", {"sessionId": session})
    assert waited["outcome"] == "awaiting_input", waited
    option = waited["asks"][0]["options"][0]["optionId"]
    await call(client, "answer_agent_session", {"sessionId": session, "optionId": option})
    waited = await call(client, "wait_agent_session", {"sessionId": session})
    assert waited["outcome"] == "turn_ended", waited

    output = await call(client, "agent_output", {"sessionId": session, "lastN": 1})
    assert output["lines"] == ["── turn-end (end_turn) ──"], output
    alive = await call(client, "list_agent_sessions", {"onlyAlive": True})
    assert session in [known["id"] for known in alive["sessions"]]
    killed = await call(client, "kill_agent_session", {"sessionId": session})
    assert killed == {"ok": True, "sessionId": session}, killed
    print("  every tool called")


async def main():
    url, token, wharf, state, directory = sys.argv[1:]
    print("Python mcp client over Streamable HTTP")
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        async with streamable_http_client(f"{url}/mcp", http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as client:
                await drive(client, directory)
    print("Python mcp client over `wharf mcp`")
    server = StdioServerParameters(command=wharf, args=["mcp", "--no-start", "--state-dir", state])
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as client:
            await drive(client, directory)


asyncio.run(asyncio.wait_for(main(), 120))
