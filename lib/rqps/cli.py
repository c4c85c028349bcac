"""The command `rqps`: words to calls, nothing else."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rqps import __version__, commands
from rqps.errors import RqpsError

BAD_INPUT = 2
STOPPED = 130
PIPE_CLOSED = 141

ABOUT = "Measures what a MySQL change costs: a release, a build flag, a line of my.cnf, the performance schema."
FIRST_STEPS = """\
what to do first:
  rqps doctor              is this machine fit to measure on, and what would make it better
  rqps plan demo           what the study `demo` of runs.yaml comes to, and how long it takes
  rqps run demo            measure it; Ctrl-C at any time, the same command goes on where it was
  rqps report demo         render what was measured to a page

exit codes: 0 all well, 1 something failed, 2 bad input, 130 stopped by Ctrl-C
"""

Command = Callable[[argparse.Namespace], commands.Call]


def main(argv: Sequence[str] | None = None) -> int:
    """Does one command; its exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    command: Command = arguments.command
    code = BAD_INPUT
    try:
        call = command(arguments)
        code = commands.FAILED
        code = call()
        sys.stdout.flush()
    except RqpsError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's own flush at exit complains
        return PIPE_CLOSED
    return code


class _Parser(argparse.ArgumentParser):
    """One that keeps the line breaks of its examples."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def command(self, call: Command, *examples: str) -> None:
        self.set_defaults(command=call)
        self.epilog = "\n".join(["examples:", *(f"  {example}" for example in examples)])


def _parser() -> _Parser:
    parser = _Parser(prog="rqps", description=ABOUT, epilog=FIRST_STEPS)
    parser.add_argument("--version", action="version", version=f"rqps {__version__}")
    parser.set_defaults(command=None)
    every = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, does: str) -> _Parser:
        return every.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.")

    _doctor(add("doctor", "check this machine: what makes numbers worse here, and how to mend it"))
    _servers(add("servers", "list the servers that can be had, or fetch one"))
    _plan(add("plan", "show what a study comes to, without starting anything"))
    _run(add("run", "measure what is missing of a study, and nothing twice"))
    _status(add("status", "show what is done, failed or missing"))
    _report(add("report", "render a study to pages that work offline"))
    return parser


def _doctor(parser: _Parser) -> None:
    parser.command(commands.doctor, "rqps doctor", "rqps doctor --data /mnt/fast/data")
    _add_data(parser)


def _servers(parser: _Parser) -> None:
    parser.command(
        commands.servers,
        "rqps servers               version, source, size, fetched or not",
        "rqps servers fetch my8033  a build of runs.yaml",
        "rqps servers fetch 8.0.33  a version of the catalogue",
    )
    parser.add_argument("what", nargs="?", choices=("list", "fetch"), default="list", help="list, if not given")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the build or version to fetch")
    _add_runs_yaml(parser)


def _plan(parser: _Parser) -> None:
    parser.command(commands.plan, "rqps plan demo", "rqps plan demo --rounds 1")
    parser.add_argument("study", metavar="STUDY", help="its name in runs.yaml")
    _add_rounds(parser)
    _add_runs_yaml(parser)
    _add_data(parser)


def _run(parser: _Parser) -> None:
    parser.command(
        commands.run,
        "rqps run demo             all that is missing",
        "rqps run demo --rounds 1  a quick try",
        "rqps run demo --archive   set aside what was measured before, and measure it all again",
    )
    parser.add_argument("study", metavar="STUDY", help="its name in runs.yaml")
    _add_rounds(parser)
    parser.add_argument("--archive", action="store_true", help="set what was measured before aside")
    _add_runs_yaml(parser)
    _add_data(parser)


def _status(parser: _Parser) -> None:
    parser.command(commands.status, "rqps status       every study in a line", "rqps status demo  each of its runs")
    parser.add_argument("study", metavar="STUDY", nargs="?", help="its name in runs.yaml; every study if not given")
    _add_runs_yaml(parser)
    _add_data(parser)


def _report(parser: _Parser) -> None:
    parser.command(commands.report, "rqps report demo", "rqps report demo --out /tmp/demo")
    parser.add_argument("study", metavar="STUDY", help="measured here, or one that came with the checkout")
    text = "the pages go to FOLDER/STUDY; report in the data folder if not given"
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=text)
    _add_data(parser)


def _add_rounds(parser: _Parser) -> None:
    text = "only the first N rounds, for a quick try; the whole study goes on from them"
    parser.add_argument("--rounds", type=int, metavar="N", help=text)


def _add_runs_yaml(parser: _Parser) -> None:
    text = "the file with builds, configs and studies; the nearest runs.yaml here or above if not given"
    parser.add_argument("--runs-yaml", type=Path, metavar="FILE", help=text)


def _add_data(parser: _Parser) -> None:
    text = "where what is measured is kept; $RQPS_DATA if not given, else data beside runs.yaml"
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=text)


if __name__ == "__main__":
    sys.exit(main())
