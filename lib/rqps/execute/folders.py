"""The folders of a study while it is measured: one a run, hidden until it is whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PARTIAL = ".partial"


@dataclass(frozen=True)
class StudyFolder:
    """`data/raw/study=S`."""

    path: Path

    @classmethod
    def of(cls, data: Path, study: str) -> "StudyFolder":
        return cls(data / "raw" / f"study={study}")

    def whole(self, run: str) -> Path:
        return self.path / f"run={run}"

    def partial(self, run: str) -> Path:
        return self.path / f".run={run}{PARTIAL}"

    def partials(self) -> tuple[Path, ...]:
        return tuple(sorted(self.path.glob(f".run=*{PARTIAL}")))

    def failures(self, run: str) -> tuple[Path, ...]:
        """The tries of a run that failed, the earliest first."""
        numbered = self._numbered(run)
        return tuple(path for _, path in sorted(numbered))

    def next_failure(self, run: str) -> Path:
        number = max((number for number, _ in self._numbered(run)), default=0) + 1
        return self.path / "failed" / f"run={run}.{number}"

    def _numbered(self, run: str) -> Iterator[tuple[int, Path]]:
        start = f"run={run}."
        failed = self.path / "failed"
        for path in failed.iterdir() if failed.is_dir() else ():
            number = path.name.removeprefix(start)
            if path.name.startswith(start) and number.isdecimal():
                yield int(number), path
