"""The hours of the day that a study may be measured in (`22:00-06:00`), by the clock of this machine."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as clock

from rqps.errors import RqpsError
from rqps.schedule.state import Estimate
from rqps.schedule.watch import Watcher
from rqps.study import Run
from rqps.terminal import duration, moment

_DAY = timedelta(days=1)
_FORM = re.compile(r"(\d\d:\d\d(?::\d\d)?)-(\d\d:\d\d(?::\d\d)?)")


@dataclass(frozen=True)
class Hours:
    """The hours from one time of day to another; an end that is not later than the
    start is on the next day."""

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
            raise RqpsError(f"--between {text}: it ends when it begins", fix=fix)
        return hours

    def __str__(self) -> str:
        return "-".join(
            time_of_day.strftime("%H:%M:%S" if time_of_day.second else "%H:%M")
            for time_of_day in (self.begin, self.end)
        )

    def following(self, now_s: float) -> Iterator[tuple[float, float]]:
        """Yields begin and end, as Unix times: of the rest of the current hours or else of the next hours, then of
        the hours of each following day.

        If the clock skips a time in spring, the moment as many hours after midnight counts instead; if a time
        occurs twice in autumn, the first occurrence counts.
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
                f"{what} takes about {duration(seconds)}, and from {self} there are only {duration(length.seconds)}",
                fix="give it more hours with --between, or let a run have fewer steps, seconds or dbms",
            )
        return next(begin for begin, end in self.following(now_s) if end - begin >= seconds)

    def plan(self, runs: Sequence[Run], now_s: float) -> str:
        """The number of nights or days that the runs take, in words. Raises RqpsError if one run does not fit."""
        days = set()
        for run in runs:
            seconds = Estimate.of([run]).left_s()
            begin = self.room(seconds, run.words, now_s)
            days.add(next(self.following(begin))[1])
            now_s = begin + seconds
        kind = "day" if self.begin < self.end else "night"
        return f"{len(days)} {kind}{'s' * (len(days) != 1)} from {self}, the last until about {moment(now_s)}"

    def wait(self, watcher: Watcher, seconds: float = 0.0, what: str = "the study") -> None:
        """Waits until `seconds` fit into the hours; says until when it waits, and when it goes on."""
        now_s = time.time()
        begin = self.room(seconds, what, now_s)
        if begin > now_s:
            takes = f", which takes about {duration(seconds)}" if seconds else ""
            watcher.wait(begin, f"waiting until {moment(begin)} with {what}{takes}")
            watcher.say(f"it is {moment(time.time())}: going on with {what}")

    def runs(self, runs: Iterator[Run], watcher: Watcher) -> Iterator[Run]:
        """Yields each run as soon as it can start and, by its estimate, end within the hours."""
        for run in runs:
            self.wait(watcher, watcher.expected_s(run), run.words)
            yield run
