"""What was asked of a run, kept beside it, so that a later change in runs.yaml can be named."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rqps.study import Option, Run

ASKED = "asked.json"


def asked(run: Run) -> dict[str, Any]:
    """All that a run's identity stands for, as plain values."""
    scenario = {"perf_schema": run.perf_schema.asked()} if run.perf_schema else {}
    return scenario | {
        "build": run.build_spec.model_dump(mode="json", exclude_none=True),
        "options": {name: _option(option) for name, option in sorted(run.options.items())},
        "workload": run.workload,
        "parameters": run.parameters.model_dump(mode="json"),
        "placement": run.placement or "chosen for the host",
    }


def _option(option: Option) -> Any:
    return f"{option.value} where there is one" if option.optional else option.value


def write_asked(folder: Path, run: Run) -> None:
    (folder / ASKED).write_text(json.dumps(asked(run), indent=2) + "\n", encoding="utf-8")


def differences(folder: Path, run: Run) -> tuple[str, ...]:
    """What a measured run was asked otherwise than it is now."""
    try:
        then = json.loads((folder / ASKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    before, now = dict(_flat(then)), dict(_flat(asked(run)))
    names = sorted(name for name in before | now if before.get(name) != now.get(name))
    return tuple(f"{name} was {_told(before, name)}, is now {_told(now, name)}" for name in names)


def _told(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "not set"


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value
