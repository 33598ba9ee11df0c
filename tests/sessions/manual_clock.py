"""A clock that stands still."""

from __future__ import annotations

from collections.abc import Callable


class ManualClock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.time = 100.0
        self._alarms: list[ManualAlarm] = []

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return 1_700_000_000.0 + self.time

    def call_at(self, when: float, callback: Callable[[], object]) -> ManualAlarm:
        alarm = ManualAlarm(when, callback)
        self._alarms.append(alarm)
        return alarm

    @property
    def next_alarm(self) -> float | None:
        self._alarms = [alarm for alarm in self._alarms if not alarm.cancelled]
        return min((alarm.when for alarm in self._alarms), default=None)

    def advance(self, seconds: float) -> None:
        self.time += seconds
        due = [alarm for alarm in self._alarms if alarm.when <= self.time]
        self._alarms = [alarm for alarm in self._alarms if alarm.when > self.time]
        for alarm in due:
            if not alarm.cancelled:
                alarm.callback()


class ManualAlarm:
    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
