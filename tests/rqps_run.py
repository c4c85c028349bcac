"""`rqps run` with the scripted notebook: python rqps_run.py HOUSE STUDY [--archive] [--occasion] [HOURS]."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rqps import save_cpu
from rqps.errors import RqpsError
from rqps.schedule.hours import Hours
from rqps.schedule.run_study import LocalRunner, run_study
from rqps.study import Run, read_runs_file
from rqps.workloads import PARAMETERS

MEMBER = ("run", "dbms", "identity", "mode", "occasion")


class Scripted(LocalRunner):
    """Runs that need no server: their file says where the script is."""

    def make_ready(self, runs: Sequence[Run], say: Callable[[str], None]) -> None:  # noqa: ARG002
        with (self.runs_yaml.parent / "order.log").open("a") as log:
            log.write(f"setup {len(runs)}\n")

    def write_job(self, run: Run, folder: Path) -> Path:
        file = folder / "logs" / "job.json"
        asked = {name: getattr(run, name) for name in ("study", "run", "dbms", "round", "identity")}
        members = [{name: getattr(member, name) for name in (*MEMBER, "round", "study")} for member in run.members]
        facts = {"house": str(self.runs_yaml.parent), "folder": str(folder), "members": members, **asked}
        file.write_text(json.dumps(facts))
        return file


def main(house: Path, study: str, *options: str) -> int:
    runs_yaml = house / "runs.yaml"
    try:
        return run_study(
            read_runs_file(runs_yaml, PARAMETERS),
            study,
            data=house / "data",
            runner=Scripted(house / "notebooks", runs_yaml),
            archive="--archive" in options,
            another="--occasion" in options,
            host="here",
            hours=next((Hours.read(option) for option in options if option[0].isdigit()), None),
        )
    except RqpsError as error:
        print(f"rqps: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    save_cpu()
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
