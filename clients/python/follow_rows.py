"""Follows the rows of a session with generated models, through a whole story: starts the demo agent, prompts it, answers its
question, cancels a turn, shares the session with a second client, ends and resumes it. Prints the first answer."""

import json
import os
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from models import AskList, Interrupted, Row, RowStreamEvent, Session, SessionList

BASE = os.environ["WHARF_URL"]
HEADERS = {"Authorization": "Bearer " + os.environ["WHARF_TOKEN"], "Content-Type": "application/json"}


STUCK_AFTER_SECONDS = 240
"""How long the story may wait for one thing; a stalled machine needs a lot."""


def call(path: str, body: dict[str, Any] | None = None, method: str = "POST") -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, HEADERS, method=method)
    with urllib.request.urlopen(request, timeout=STUCK_AFTER_SECONDS) as response:
        answer: bytes = response.read()
    return answer


def read_events(path: str) -> Iterator[RowStreamEvent]:
    request = urllib.request.Request(BASE + path, headers=HEADERS)
    with urllib.request.urlopen(request, timeout=STUCK_AFTER_SECONDS) as response:
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
        self.open: list[str] = []
        self.is_gone = False

    def apply(self, event: RowStreamEvent) -> None:
        match event.root.event:
            case "page":
                self.rows = {}
                for shown in event.root.data.rows:
                    self.put(shown)
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
            case "tail":
                # The row shows the end of a text that is too large for it.
                append = event.root.data
                row = self.rows[append.id].root
                assert row.rev == append.from_, "the row has to be read anew"
                assert row.kind in ("message", "thought", "prompt"), row.kind
                part = row.parts[append.part].root
                assert part.type == "text" and part.cut
                part.cut.tail = (part.cut.tail or "") + append.text
                row.rev = append.rev
            case "reset":
                self.rows = {}
            case "gone":
                self.is_gone = True
            case "state":
                if event.root.data.asks is not None:
                    self.open = event.root.data.asks
            case "beat":
                pass

    def put(self, row: Row) -> None:
        known = self.rows.get(row.root.id)
        if known is None or known.root.rev < row.root.rev:
            self.rows[row.root.id] = row

    def outcomes(self) -> list[str]:
        """Returns how the turns ended, in their order."""
        return [row.root.outcome.root for row in self.rows.values() if row.root.kind == "turn_end"]

    def answer(self) -> str:
        texts: list[str] = []
        for row in self.rows.values():
            if row.root.kind == "message":
                texts.extend(part.root.text for part in row.root.parts if part.root.type == "text")
        return "".join(texts)


class Follower:
    """A client that follows a session, and waits for what it is to see."""

    def __init__(self, session: str) -> None:
        self.transcript = Transcript()
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._follow, args=[session], daemon=True).start()

    def _follow(self, session: str) -> None:
        try:
            for event in read_events(f"/sessions/{session}/rows/stream"):
                with self._changed:
                    self.transcript.apply(event)
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def until(self, fits: Callable[[Transcript], bool]) -> None:
        """Waits until the transcript is as it has to be."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or fits(self.transcript), STUCK_AFTER_SECONDS)
            assert fits(self.transcript), f"ended: {self._ended}, outcomes: {self.transcript.outcomes()}"

    def until_ended(self, turns: int, outcome: str) -> None:
        """Waits until this many turns have ended, the last of them so."""
        self.until(lambda transcript: len(transcript.outcomes()) >= turns)
        outcomes = self.transcript.outcomes()
        assert len(outcomes) == turns and outcomes[-1] == outcome, outcomes


session = Session.model_validate_json(call("/sessions/agent", {"adapter": "demo", "cwd": os.getcwd()}))
at = f"/sessions/{session.id}"
first = Follower(session.id)
call(f"{at}/prompt", {"prompt": "echo hello harbour"})
first.until_ended(1, "done")
answer = first.transcript.answer()

call(f"{at}/prompt", {"prompt": "ask"})
first.until(lambda transcript: len(transcript.open) == 1)
ask = AskList.model_validate_json(call(f"{at}/asks", method="GET")).asks[0]
assert ask.options
call(f"{at}/asks/{ask.askId}", {"optionId": ask.options[0].optionId})
first.until_ended(2, "done")

call(f"{at}/prompt", {"prompt": "hang"})
assert Interrupted.model_validate_json(call(f"{at}/interrupt", {})).wasBusy
first.until_ended(3, "cancelled")

second = Follower(session.id)
second.until_ended(3, "cancelled")
call(f"{at}/prompt", {"prompt": "echo shared"})
first.until_ended(4, "done")
second.until_ended(4, "done")
assert first.transcript.answer() == second.transcript.answer(), "two clients see two transcripts"

listed = SessionList.model_validate_json(call("/sessions", method="GET"))
assert session.id in [entry.id for entry in listed.sessions]

call(f"{at}/kill")
resumed = Session.model_validate_json(call(f"{at}/resume", {}))
assert resumed.status.root == "running", resumed.status
third = Follower(session.id)
call(f"{at}/prompt", {"prompt": "echo back"})
third.until_ended(5, "done")
call(at, method="DELETE")
third.until(lambda transcript: transcript.is_gone)
print(answer)
