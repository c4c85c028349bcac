"""`rqps run` with the scripted notebook: python rqps_run.py HOUSE STUDY [--archive]."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rqps.errors import RqpsError
from rqps.execute import run_study
from rqps.study import Run, read_runs_file
from rqps.workloads import PARAMETERS


def main(house: Path, study: str, *options: str) -> int:
    def make_ready(runs: Sequence[Run], _say: Callable[[str], None]) -> None:
        with (house / "order.log").open("a") as log:
            log.write(f"setup {len(runs)}\n")

    try:
        outcome = run_study(
            read_runs_file(house / "runs.yaml", PARAMETERS),
            study,
            runs_yaml=house / "runs.yaml",
            data=house / "data",
            notebooks=house / "notebooks",
            archive="--archive" in options,
            host="here",
            make_ready=make_ready,
        )
    except RqpsError as error:
        print(f"rqps: {error}", file=sys.stderr)
        return 1
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
