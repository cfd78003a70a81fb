"""An editor on the official Python SDK: one ACP connection, and everything that it received."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import acp
from acp import schema
from acp.ws import create_websocket_stream
from news import Host, News

# The SDK does not know the notification that takes a request back, and logs a stack trace for each.
logging.getLogger().addFilter(lambda record: "$/cancel_request" not in record.getMessage())


class Editor(acp.Client):
    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asks: list[list[schema.PermissionOption]] = []
        self.grants = True
        """False to leave permissions to other clients."""
        self.news = News()
        self._stack = AsyncExitStack()

    @classmethod
    async def connect(cls, host: Host, transport: str, name: str) -> "Editor":
        """Connects over `ws` or `stdio` and initializes."""
        editor = cls()
        editor.agent = await editor._open(host, transport)
        editor.about = await editor.agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(),
            client_info=schema.Implementation(name=name, version="1"),
        )
        return editor

    async def _open(self, host: Host, transport: str) -> Any:
        match transport:
            case "ws":
                url = host.url.replace("http", "ws") + "/acp"
                opened = await create_websocket_stream(url, headers=host.headers)
            case "stdio":
                args = ["acp", "--no-start", "--state-dir", host.state_dir]
                bridge = acp.spawn_agent_process(self, host.wharf, *args, transport_kwargs={"stderr": None})
                connection, _ = await self._stack.enter_async_context(bridge)
                return connection
            case _:
                raise ValueError(f"{transport} is not a transport")
        return await self._stack.enter_async_context(acp.connect_to_agent(self, opened))

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        await self.news.wake()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asks.append(options)
        await self.news.wake()
        if not self.grants:
            await asyncio.Event().wait()
        option = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        pass

    async def prompt(self, session: str, text: str) -> str:
        """Sends a prompt. Returns the stop reason."""
        return (await self.agent.prompt(session_id=session, prompt=[acp.text_block(text)])).stop_reason

    async def list_all(self) -> list[schema.SessionInfo]:
        """Returns every page of the list of sessions."""
        page = await self.agent.list_sessions()
        sessions = list(page.sessions)
        while page.next_cursor:
            page = await self.agent.list_sessions(cursor=page.next_cursor)
            sessions.extend(page.sessions)
        return sessions

    def texts(self, kind: str) -> list[str]:
        """Returns the texts of all updates of this kind, in their order."""
        return [update.content.text for update in self.updates if update.session_update == kind]

    def said(self) -> list[str]:
        """Returns the agent's chunks."""
        return self.texts("agent_message_chunk")

    async def until_said(self, text: str) -> None:
        await self.news.until(lambda: text in self.said())

    async def leave(self) -> None:
        await self._stack.aclose()
