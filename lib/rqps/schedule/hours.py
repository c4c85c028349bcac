"""The hours of the day in which a study may be measured (`22:00-06:00`), by the clock of this machine."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as clock

from rqps.errors import RqpsError
from rqps.numbers import duration, moment
from rqps.schedule.state import Estimate
from rqps.schedule.watch import Watcher
from rqps.study import Run

_DAY = timedelta(days=1)
_FORM = re.compile(r"(\d\d:\d\d(?::\d\d)?)-(\d\d:\d\d(?::\d\d)?)")


@dataclass(frozen=True)
class Hours:
    """The hours from one time of day to another. If the end is before the beginning, the hours end on the next
    day."""

    begin: clock
    end: clock

    @classmethod
    def read(cls, text: str) -> "Hours":
        fix = "write two different times of the day, such as 22:00-06:00"
        if (match := _FORM.fullmatch(text)) is None:
            raise RqpsError(f"--between {text}: these are not two times of the day", fix=fix)
        try:
            hours = cls(*map(clock.fromisoformat, match.groups()))
        except ValueError as error:
            raise RqpsError(f"--between {text}: {error}", fix=fix) from error
        if hours.begin == hours.end:
            raise RqpsError(f"--between {text}: the two times are equal", fix=fix)
        return hours

    def __str__(self) -> str:
        return "-".join(
            time_of_day.strftime("%H:%M:%S" if time_of_day.second else "%H:%M")
            for time_of_day in (self.begin, self.end)
        )

    def following(self, now_s: float) -> Iterator[tuple[float, float]]:
        """Yields the beginning and the end of each day's hours, as Unix times; if the hours of a day are under way,
        their beginning is `now_s`.

        A time that the clock skips in spring is moved by the skipped hour; if a time occurs twice in autumn, the
        first one counts.
        """
        day = date.fromtimestamp(now_s) - _DAY
        while True:
            begin = self._on(day)
            end = datetime.combine(day + _DAY * (self.end < self.begin), self.end).timestamp()
            end = min(end, self._on(day + _DAY))
            if max(begin, now_s) < end:
                yield max(begin, now_s), end
            day += _DAY

    def _on(self, day: date) -> float:
        return datetime.combine(day, self.begin).timestamp()

    def room(self, seconds: float, what: str, now_s: float) -> float:
        """The earliest Unix time from which `seconds` fit into the hours. Raises RqpsError if `seconds` are longer
        than the hours."""
        day = date(1970, 1, 1)
        length = (datetime.combine(day, self.end) - datetime.combine(day, self.begin)) % _DAY
        if seconds > length.seconds:
            raise RqpsError(
                f"{what} takes about {duration(seconds)}, but {self} has only {duration(length.seconds)}",
                fix="give more hours with --between, or fewer steps, seconds or dbms",
            )
        return next(begin for begin, end in self.following(now_s) if end - begin >= seconds)

    def plan(self, runs: Sequence[Run], now_s: float) -> str:
        """The number of nights or days that the runs take, in words. Raises RqpsError if a run is longer than the
        hours."""
        days = set()
        for run in runs:
            seconds = Estimate.of([run]).left_s()
            begin = self.room(seconds, run.words, now_s)
            days.add(next(self.following(begin))[1])
            now_s = begin + seconds
        kind = "day" if self.begin < self.end else "night"
        return f"{len(days)} {kind}{'s' * (len(days) != 1)} from {self}, the last until about {moment(now_s)}"

    def wait(self, watcher: Watcher, seconds: float = 0.0, what: str = "the study") -> None:
        """Waits until the hours have begun and have at least `seconds` left, and reports that it waits."""
        now_s = time.time()
        begin = self.room(seconds, what, now_s)
        if begin > now_s:
            takes = f", which takes about {duration(seconds)}" if seconds else ""
            watcher.wait(begin, f"waiting until {moment(begin)} with {what}{takes}")
            watcher.say(f"it is {moment(time.time())}: going on with {what}")

    def runs(self, runs: Iterator[Run], watcher: Watcher) -> Iterator[Run]:
        """Yields each run once its estimated time fits into the hours."""
        for run in runs:
            self.wait(watcher, watcher.expected_s(run), run.words)
            yield run
