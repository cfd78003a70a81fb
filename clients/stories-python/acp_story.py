"""The official Python SDK of ACP walks one whole story over one transport: `acp_story.py ws` or `stdio`."""

import asyncio
import json
import os
import sys
import urllib.request

from editor import Editor
from news import begin, find_host, tell

TRANSPORT = sys.argv[1]
CWD = os.getcwd()
HOST = find_host()


async def story() -> None:
    first = await Editor.connect(HOST, TRANSPORT, "first")
    session = await start(first)
    await stream(first, session)
    await permit(first, session)
    await cancel(first, session)
    await share(first, session)
    await resume(first, session)


async def start(first: Editor) -> str:
    begin("start")
    can = first.about.agent_capabilities
    assert first.about.agent_info.name == "wharf-scripted-agent", first.about
    sessions = can.session_capabilities
    assert can.load_session and sessions.list and sessions.resume and sessions.close, can
    return (await first.agent.new_session(cwd=CWD, mcp_servers=[])).session_id


async def stream(first: Editor, session: str) -> None:
    begin("prompt and stream")
    assert await first.prompt(session, "think hm; plan; tool; title A story; stream 200 300") == "end_turn"
    await first.news.until(lambda: len(first.said()) >= 200)
    numbers = [int(text.split(" ")[0]) for text in first.said()]
    assert numbers == list(range(200)), f"every chunk, in order and before the answer: {numbers}"
    assert first.texts("agent_thought_chunk") == ["hm"]
    kinds = {update.session_update for update in first.updates}
    assert {"plan", "tool_call", "session_info_update"} <= kinds, kinds


async def permit(first: Editor, session: str) -> None:
    begin("permission")
    assert await first.prompt(session, "ask 2; id0; stringid; echo permitted") == "end_turn"
    await first.until_said("permitted")
    assert first.said()[-5:] == ["chosen: allow_once"] * 4 + ["permitted"], first.said()[-5:]
    assert len(first.asks) == 4


async def cancel(first: Editor, session: str) -> None:
    begin("cancel of a turn")
    working = asyncio.create_task(first.prompt(session, "echo on it; hang"))
    await first.until_said("on it")
    await first.agent.cancel(session_id=session)
    assert await working == "cancelled"

    begin("cancel of a question")
    first.grants = False
    asking = asyncio.create_task(first.prompt(session, "ask"))
    await first.news.until(lambda: len(first.asks) == 5)
    await first.agent.cancel(session_id=session)
    assert await asking == "cancelled"


async def share(first: Editor, session: str) -> None:
    begin("second client")
    second = await Editor.connect(HOST, TRANSPORT, "second")
    await second.agent.load_session(session_id=session, cwd=CWD, mcp_servers=[])
    await second.news.until(lambda: len(second.said()) >= len(first.said()))
    assert second.said() == first.said(), "the replay"
    await second.news.until(lambda: len(second.texts("user_message_chunk")) >= 4)
    assert len(second.texts("user_message_chunk")) == 4

    assert await second.prompt(session, "echo hello; ask; echo shared") == "end_turn"
    await first.until_said("shared")
    await second.until_said("shared")
    await first.news.until(lambda: len(first.asks) == 6)  # The question went to both clients.
    assert first.texts("user_message_chunk") == ["echo hello; ask; echo shared"]
    assert first.said() == second.said()

    begin("list")
    entry = next(entry for entry in await second.list_all() if entry.session_id == session)
    assert (entry.cwd, entry.title) == (CWD, "A story"), entry
    await second.leave()


async def resume(first: Editor, session: str) -> None:
    begin("resume")
    await first.leave()
    third = await Editor.connect(HOST, TRANSPORT, "third")
    await third.agent.resume_session(session_id=session, cwd=CWD, mcp_servers=[])
    assert await third.prompt(session, "echo back") == "end_turn"
    await third.until_said("back")
    assert third.said() == ["back"], f"a resume replays nothing: {third.said()}"

    begin("end")
    await third.agent.close_session(session_id=session)
    request = urllib.request.Request(f"{HOST.url}/sessions/{session}", headers=HOST.headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        ended = json.load(response)
    assert (ended["status"], ended["endReason"]) == ("killed", "closed"), ended
    await third.leave()


tell(f"Python ACP SDK over {TRANSPORT}", story)
