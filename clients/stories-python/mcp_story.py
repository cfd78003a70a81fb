"""The official Python SDK of MCP walks one whole story over one transport: `mcp_story.py http` or `stdio`."""

import asyncio
import os
import sys
from typing import Any

from mcp_connections import VERSION, ToolClient, connect
from news import begin, find_host, tell

TRANSPORT = sys.argv[1]
HOST = find_host()
LABEL = f"story-{VERSION}-{TRANSPORT}-{os.getpid()}"


async def story() -> None:
    begin("connection")
    async with connect(HOST, TRANSPORT) as first:
        assert len(first.tools) >= 12, first.tools
        assert all(tool["inputSchema"] and tool["outputSchema"] and tool["annotations"] for tool in first.tools)
        session = await start(first)
        await permit(first, session)
        await cancel(first, session)
        await share(first, session)
        await read(first, session)
        await resume(first, session)


async def start(first: ToolClient) -> str:
    begin("start")
    agents = (await first.call("list_agents", {}))["agents"]
    adapter = next(agent["adapter"] for agent in agents if agent["default"])
    prompt = "title A story; tool; stream 20 30"
    wanted = {"adapter": adapter, "cwd": os.getcwd(), "label": LABEL, "prompt": prompt, "idempotencyKey": LABEL}
    session = (await first.call("start_agent_session", wanted))["id"]
    again = (await first.call("start_agent_session", wanted))["id"]
    assert again == session, "a repeated start is the same session"
    begin("stream")
    waited = await wait(first, session)
    assert waited["outcome"] == "turn_ended", waited
    text = "".join(waited["lines"])
    assert all(f"{number} " in text for number in range(20)), text
    assert waited["lines"][-1] == "── turn-end (end_turn) ──", waited
    return session


async def wait(client: ToolClient, session: str, progress: Any = None) -> dict[str, Any]:
    return await client.call("wait_agent_session", {"sessionId": session}, progress)


async def prompt(client: ToolClient, session: str, text: str) -> None:
    await client.call("prompt_agent_session", {"sessionId": session, "prompt": text})


async def answer(client: ToolClient, session: str, ask: dict[str, Any]) -> None:
    option = next(option["optionId"] for option in ask["options"] if option["kind"] == "allow_once")
    await client.call("answer_agent_session", {"sessionId": session, "askId": ask["askId"], "optionId": option})


async def permit(first: ToolClient, session: str) -> None:
    begin("permission")
    await prompt(first, session, "ask; echo permitted")
    asked = await wait(first, session)
    assert asked["outcome"] == "awaiting_input", asked
    await answer(first, session, asked["asks"][0])
    ended = await wait(first, session)
    assert ended["outcome"] == "turn_ended", ended
    assert "chosen: allow_oncepermitted" in "".join(ended["lines"]), ended


async def cancel(first: ToolClient, session: str) -> None:
    begin("cancel")
    await prompt(first, session, "echo on it; hang")
    busy = await first.refused("prompt_agent_session", {"sessionId": session, "prompt": "echo too early"})
    assert busy == "turn_in_progress", busy
    heard = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.set()

    waiting = asyncio.create_task(wait(first, session, hear))
    await heard.wait()
    assert (await first.call("interrupt_agent_session", {"sessionId": session}))["wasBusy"]
    ended = await waiting
    assert (ended["outcome"], ended["stopReason"]) == ("turn_ended", "cancelled"), ended


async def share(first: ToolClient, session: str) -> None:
    begin("second client")
    async with connect(HOST, TRANSPORT) as second:
        begin("list")
        listed = await second.call("list_agent_sessions", {"label": LABEL, "onlyAlive": True})
        assert [(entry["id"], entry["title"]) for entry in listed["sessions"]] == [(session, "A story")], listed

        begin("a question that the second client answers")
        await prompt(first, session, "echo hello; ask; echo shared")
        asked = await wait(second, session)
        await answer(second, session, asked["asks"][0])
        ended = await wait(first, session)
        assert ended["outcome"] == "turn_ended", ended


async def read(first: ToolClient, session: str) -> None:
    begin("output")
    output = await first.call("get_agent_session_output", {"sessionId": session, "lastN": 1})
    assert output["lines"] == ["── turn-end (end_turn) ──"], output
    rows = await first.call("get_agent_session_output", {"sessionId": session, "format": "rows", "whole": True})
    assert any("shared" in row["summary"] for row in rows["rows"]), rows
    changes = await first.call("get_agent_session_output", {"sessionId": session, "format": "changes"})
    assert [file["path"] for file in changes["changes"]["files"]] == ["/a.txt"], changes
    await first.call("search_agent_sessions", {"query": "shared", "sessionId": session})
    begin("fork")
    fork = await first.call("fork_agent_session", {"sessionId": session, "title": "A copy"})
    await first.call("kill_agent_session", {"sessionId": fork["id"]})


async def resume(first: ToolClient, session: str) -> None:
    begin("kill")
    killed = await first.call("kill_agent_session", {"sessionId": session})
    assert killed == {"ok": True, "sessionId": session}, killed
    alive = await first.call("list_agent_sessions", {"label": LABEL, "onlyAlive": True})
    assert alive["sessions"] == [], alive
    refusal = await first.refused("prompt_agent_session", {"sessionId": session, "prompt": "echo gone"})
    assert refusal == "killed", refusal

    begin("resume")
    resumed = await first.call("resume_agent_session", {"sessionId": session})
    assert resumed["id"] == session, resumed
    await prompt(first, session, "echo back")
    waited = await wait(first, session)
    assert waited["lines"][-2:] == ["back", "── turn-end (end_turn) ──"], waited

    begin("end")
    await first.call("kill_agent_session", {"sessionId": session})
    listed = await first.call("list_agent_sessions", {"label": LABEL})
    assert [entry["status"] for entry in listed["sessions"]] == ["killed"], listed


tell(f"Python MCP SDK {VERSION} over {TRANSPORT}", story)
