"""Follows the rows of a session with generated models: starts the demo agent, prompts it, prints its answer."""

import json
import os
import urllib.request
from collections.abc import Iterator
from typing import Any

from models import Row, RowStreamEvent, Session

BASE = os.environ["WHARF_URL"]
HEADERS = {"Authorization": "Bearer " + os.environ["WHARF_TOKEN"], "Content-Type": "application/json"}


def call(path: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(BASE + path, json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=30) as response:
        answer: bytes = response.read()
    return answer


def read_events(path: str) -> Iterator[RowStreamEvent]:
    request = urllib.request.Request(BASE + path, headers=HEADERS)
    with urllib.request.urlopen(request, timeout=30) as response:
        members: dict[str, str] = {}
        for line in response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                members[name] = value
            elif "event" in members:
                yield RowStreamEvent.model_validate({"event": members["event"], "data": json.loads(members["data"])})
                members = {}


class Transcript:
    """The rows of a session, kept up to date by the events of its stream."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.outcome: str | None = None

    def apply(self, event: RowStreamEvent) -> None:
        match event.root.event:
            case "page":
                self.rows = {row.root.id: row for row in event.root.data.rows}
            case "row":
                self.put(event.root.data)
            case "append":
                append = event.root.data
                row = self.rows[append.id].root
                assert row.rev == append.from_, "the row has to be read anew"
                assert row.kind in ("message", "thought", "prompt"), row.kind
                part = row.parts[append.part].root
                assert part.type == "text"
                part.text += append.text
                row.rev = append.rev
            case "reset":
                self.rows = {}
            case "gone":
                raise SystemExit("the session was deleted")
            case "state" | "beat":
                pass

    def put(self, row: Row) -> None:
        known = self.rows.get(row.root.id)
        if known is None or known.root.rev < row.root.rev:
            self.rows[row.root.id] = row
        if row.root.kind == "turn_end":
            self.outcome = row.root.outcome.root

    def answer(self) -> str:
        texts: list[str] = []
        for row in self.rows.values():
            if row.root.kind == "message":
                texts.extend(part.root.text for part in row.root.parts if part.root.type == "text")
        return "".join(texts)


session = Session.model_validate_json(call("/sessions/agent", {"adapter": "demo", "cwd": os.getcwd()}))
transcript = Transcript()
prompted = False
for event in read_events(f"/sessions/{session.id}/rows/stream"):
    transcript.apply(event)
    if not prompted:
        prompted = True
        call(f"/sessions/{session.id}/prompt", {"prompt": "echo hello harbour"})
    if transcript.outcome is not None:
        break
assert transcript.outcome == "done", transcript.outcome
print(transcript.answer())
