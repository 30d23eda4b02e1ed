"""When a call is repeated, and after which pause. The same for the sync and the async client."""

from __future__ import annotations

import random
import time
from typing import Optional

from muster.client.errors import MusterError, Unavailable

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class Attempts:
    """The attempts of one call, or of one stream between two messages.

    Thread: one. A call is repeated only after UNAVAILABLE. Pauses double from 0.1 s to 1 s, give or take a quarter."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._first_failure: Optional[float] = None
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._pause = _FIRST_PAUSE

    def remaining(self) -> Optional[float]:
        """Returns the seconds until the deadline of the call. None means no limit."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.001)

    def succeeded(self) -> None:
        """The launcher has answered: later failures have all their time again."""
        self._first_failure = None
        self._pause = _FIRST_PAUSE

    def pause_after(self, failure: MusterError, retry_for: float) -> float:
        """Returns the seconds to wait before the next attempt. Raises `failure` if there must be none: because of its
        kind, or because it would be later than `retry_for` seconds after the first failure, or than the deadline."""
        now = time.monotonic()
        if not isinstance(failure, Unavailable) or retry_for <= 0:
            raise failure
        if self._first_failure is None:
            self._first_failure = now
        pause = self._pause * random.uniform(0.75, 1.25)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        is_too_late = now + pause > self._first_failure + retry_for
        if is_too_late or (self._deadline is not None and now + pause > self._deadline):
            waited = now - self._first_failure
            raise Unavailable(f"{failure.message} (asked again for {waited:.1f} s)",
                              is_from_launcher=failure.is_from_launcher) from failure
        return pause
