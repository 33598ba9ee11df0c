"""Sessions that have lived long enough, or that nobody needs just now."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sessions.clock import Alarm, Clock
from sessions.limits import Limits
from sessions.session import Session
from sessions.sleepers import Sleeper

LOOKS = 8  # within the shortest lifetime: what is over is found that much later at most
RAREST_LOOK_S = 30.0


class Lifetimes:
    """Looks from time to time for sessions that have been idle for too long, to `suspend`, and for those that
    are too old, to `expire`, asleep or not. Idle is what nobody plays or watches, and nobody asked anything
    of.
    """

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        live: Callable[[], Iterable[Session]],
        asleep: Callable[[], Iterable[Sleeper]],
        suspend: Callable[[Session], object],
        expire: Callable[[str], object],
    ) -> None:
        self._clock = clock
        self._idle_s = limits.idle_s
        self._lifetime_s = limits.lifetime_s
        self._live = live
        self._asleep = asleep
        self._suspend = suspend
        self._expire = expire
        self._alarm: Alarm | None = None

    def start(self) -> None:
        """Look from now on."""
        bounds = [bound for bound in (self._idle_s, self._lifetime_s) if bound is not None]
        if bounds:
            every = min(RAREST_LOOK_S, min(bounds) / LOOKS)
            self._alarm = self._clock.call_at(self._clock.now() + every, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _look(self) -> None:
        oldest = None if self._lifetime_s is None else self._clock.wall() - self._lifetime_s
        old = {sleeper.session_id for sleeper in self._asleep() if _before(sleeper.opened_at, oldest)}
        for session in self._live():
            if _before(session.opened_at, oldest):
                old.add(session.session_id)
            elif self._is_idle(session):
                self._suspend(session)
        for session_id in sorted(old):
            self._expire(session_id)
        self.start()

    def _is_idle(self, session: Session) -> bool:
        if self._idle_s is None or session.watched:
            return False
        return self._clock.now() - session.used_at >= self._idle_s


def _before(opened_at: float, oldest: float | None) -> bool:
    return oldest is not None and opened_at <= oldest
