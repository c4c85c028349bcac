"""More clients than a server takes: found in the file, before any server is started."""

from collections.abc import Iterator

from rqps.study.configs import Option, resolve
from rqps.study.problems import Problem
from rqps.study.runs_file import RunsFile

OPTION = "max_connections"
DEFAULT = 151
"""Of every release from 5.5 on."""


def connection_problems(runs_file: RunsFile) -> Iterator[Problem]:
    """The studies whose load has more clients than the servers of one of their configs admit."""
    for name, study in runs_file.studies.items():
        asked = study.typed_parameters.connections
        too_few = {}
        for config in dict.fromkeys(dbms.partition(".")[2] for dbms in study.dbms):
            option = resolve(runs_file.configs, config).get(OPTION)
            most = DEFAULT if option is None else _number(option)
            if most is not None and most < asked.needed:
                too_few[config] = f"{most}{' by default' if option is None else ''} in configs.{config}"
        if too_few:
            clients = f"{asked.clients} {asked.parameter}"
            yield Problem(
                ("studies", name, "parameters", asked.parameter),
                f"{clients} and {asked.ours} for control take {asked.needed} connections, and {OPTION} is "
                f"{', '.join(too_few.values())}; set {asked.needed} or more there, or ask for fewer",
            )


def _number(option: Option) -> int | None:
    """None where only the server can tell, of `1K` for instance; it is asked before the first step, too."""
    return int(option.value) if str(option.value).isdecimal() else None
