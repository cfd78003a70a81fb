"""Waits for events, and runs a story: it fails, with the name of the step, if an assertion does or if it is stuck."""

import asyncio
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

STUCK_AFTER_SECONDS = 240
"""How long a story may take before it counts as stuck. A story takes seconds; a stalled machine gets a lot more."""


@dataclass(frozen=True)
class Host:
    """The running host: `url` and `token` for its listener, `wharf` and `state_dir` for its programs on stdio."""

    url: str
    token: str
    wharf: str
    state_dir: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def find_host() -> Host:
    names = ("WHARF_URL", "WHARF_TOKEN", "WHARF_BIN", "WHARF_STATE_DIR")
    return Host(*(os.environ[name] for name in names))


class News:
    """Wakes what waits for something each time that something was received."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()

    async def wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, found: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(found)


step = "the beginning"


def begin(name: str) -> None:
    """Names the step that begins."""
    global step
    step = name


def tell(name: str, story: Callable[[], Awaitable[None]]) -> None:
    """Runs a story. The process ends with 1 if it fails or is stuck."""

    async def run() -> None:
        await asyncio.wait_for(story(), STUCK_AFTER_SECONDS)

    try:
        asyncio.run(run())
    except Exception:
        print(f"{name}: failed at {step}", file=sys.stderr)
        traceback.print_exc()
        sys.exit(1)
    print(f"{name}: told")
