"""The command `rqps`: parses the command line and calls the function of each command."""

import argparse
import os
import sys
from collections.abc import Sequence
from keyword import iskeyword
from pathlib import Path
from typing import Any

from rqps import __version__, commands
from rqps.errors import RqpsError, of_the_system
from rqps.terminal import printable, show_what_it_can

BAD_INPUT = 2
STOPPED = 130
PIPE_CLOSED = 141

ABOUT = "Measures what a database change costs: a release, a build flag, an option, what a server records of itself."
FIRST_STEPS = """\
what to do first:
  rqps doctor              is this machine fit to measure on, and what would make it better
  rqps plan demo           the runs of the study `demo` of runs.yaml, and the time they take
  rqps run demo            measure it; Ctrl-C at any time, the same command goes on where it was
  rqps report demo         render what was measured to a page

environment:
  RQPS_CACHE    the folder of servers, tools and loaded tables; ~/.cache/rqps if not set
  RQPS_SCRATCH  the folder of the copies that are measured; in the cache if not set
  RQPS_DATA     the folder of what was measured; data beside runs.yaml if not set

exit codes: 0 all well, 1 something failed, 2 bad input, 3 `watch` has found a step slower, 130 stopped by Ctrl-C
"""

STUDY: dict[str, Any] = {"metavar": "STUDY", "help": "its name in runs.yaml"}
PLACE = "its name: measured here, or came with the checkout; or its folder, its packed file, its URL"
BISECTED = "a study of runs.yaml, whose workload, parameters and config are taken"
ONE_END = "one end: a build of runs.yaml, or a version of the catalogue"
BETWEEN_ENDS = "only these between the ends, in order; all of the catalogue between them if not given"
RENAMED = "other names for dbms, such as those of a study to set it beside"
PACKED = "a file that ends in .rqps, or the folder for study=STUDY; STUDY.rqps if not given, or data/raw to unpack"
CHECK = "make a report again, from the data in it or else from those of the study, and compare every number"
FETCHED = "to fetch a build of runs.yaml, or an engine and its version; to list, an engine"
ROUNDS = "only the first N rounds, for a quick try; the whole study goes on from them"
BUDGET = "the time for it, such as 30m: a round of all, then rounds where they decide something"
BETWEEN = "only at these hours of each day, such as 22:00-06:00: a run begins where it should end within them"
SCHEDULER = "the Dask scheduler, tls://NAME:PORT, whose workers have the names of the study's hosts, in place of SSH"
BUILDS = "builds of runs.yaml with a source and a recipe; to list, all of them if none is named"
MAKE_FIRST = "make builds from source first, where they are not made yet"
REBUILT = "measure builds that were rebuilt at their path, beside what was measured of them before"
ACKNOWLEDGE = "measure nothing: write into acknowledged.yaml that the changes of these steps are known; * is anything"
ANOTHER_HOUR = "measure what was found once more now, from newly loaded tables"
EVERY = "only every N-th of the list: quicker, and the change is placed among N"
CHECKOUT = "a git repository: the ends are revisions of it, and the candidates the commits between them"
MAKE = "the command that builds a commit in the folder of a checkout and installs it below $PREFIX"
BRANCH = "build its last commit first, and install it where the study's build has its path"
AGAINST = "beside the version before and the base (last), or the base alone; last if not given"
BASE = "a dbms of runs.yaml as the base; the first version of the build if not given"
CONFIG = "its options, by the name of a config of runs.yaml; those of the base if not given"
TRIED = "those of the last try of the build if none are named; or a statement in quotes"
VALUES = "of a statement: for each ? in their order, or {NAME}: 1..9, TABLE.COLUMN, or '[a, b]'"
WITHOUT = "leave out what may hold your data: SQL, values, explained statements, words of errors"
RUNS_YAML = "the file with builds, configs and studies; the nearest runs.yaml here or above if not given"
DATA = "where what is measured is stored; $RQPS_DATA if not given, else data beside runs.yaml"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--rounds": {"type": int, "metavar": "N", "help": ROUNDS},
    "--budget": {"metavar": "TIME", "help": BUDGET},
    "--between": {"metavar": "HOURS", "help": BETWEEN},
    "--scheduler": {"metavar": "ADDRESS", "default": "", "help": SCHEDULER},
    "--runs-yaml": {"type": Path, "metavar": "FILE", "help": RUNS_YAML},
    "--data": {"type": Path, "metavar": "FOLDER", "help": DATA},
    "--check": {
        "action": "store_true",
        "help": "compare the digest of all that was measured; logs and notebooks have none",
    },
    "--occasion": {"action": "store_true", "help": "measure it once more now, from newly loaded tables"},
    "--archive": {"action": "store_true", "help": "set what was measured before aside"},
    "--make": {"action": "store_true", "help": MAKE_FIRST},
    "--rebuilt": {"action": "store_true", "help": REBUILT},
    "--note": {
        "metavar": "TEXT",
        "default": "",
        "help": "a remark on a build as it is now, such as 'without the memcpy'",
    },
    "--out": {
        "type": Path,
        "metavar": "FOLDER",
        "help": "the pages go to FOLDER/STUDY; report in the data folder if not given",
    },
}
COMMANDS: tuple[tuple[str, str, dict[str, dict[str, Any]], tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "doctor",
        "check this machine: what makes numbers worse here, and how to fix it",
        {},
        ("--data",),
        ("rqps doctor", "rqps doctor --data /mnt/fast/data"),
    ),
    (
        "servers",
        "list the servers that can be had, or fetch one",
        {
            "what": {"nargs": "?", "choices": ("list", "fetch"), "default": "list", "help": "list, if not given"},
            "names": {"nargs": "*", "metavar": "NAME", "help": FETCHED},
        },
        ("--runs-yaml",),
        (
            "rqps servers                      builds of runs.yaml, and the versions of each engine",
            "rqps servers list ENGINE          all of one engine: version, source, size, fetched or not",
            "rqps servers fetch my8033         a build of runs.yaml",
            "rqps servers fetch ENGINE 8.0.33  a version of the catalogue",
        ),
    ),
    (
        "builds",
        "list the builds that are made from source, or make some of them",
        {
            "what": {"nargs": "?", "choices": ("list", "make"), "default": "list", "help": "list, if not given"},
            "names": {"nargs": "*", "metavar": "NAME", "help": BUILDS},
            "--jobs": {"type": int, "metavar": "N", "help": "compile so many files at once; one a CPU if not given"},
            "--nice": {
                "type": int,
                "default": 10,
                "metavar": "N",
                "help": "the niceness of compilers; 10 if not given",
            },
        },
        ("--runs-yaml",),
        (
            "rqps builds                               which are there, which are made",
            "rqps builds make pg15_gcc_o2 pg15_gcc_o3  says what it takes first; after Ctrl-C it goes on from there",
            "rqps builds make pg15_gcc_pgo --jobs 4    builds, trains and builds again",
        ),
    ),
    (
        "hosts",
        "check the hosts of runs.yaml, or put this checkout and its environment on them",
        {
            "what": {
                "nargs": "?",
                "choices": ("check", "prepare"),
                "default": "check",
                "help": "check, if not given",
            },
            "names": {"nargs": "*", "metavar": "NAME", "help": "only these"},
        },
        ("--runs-yaml",),
        (
            "rqps hosts              can all be reached, and measure?",
            "rqps hosts prepare      put this checkout and its environment on each",
            "rqps hosts prepare big  on one",
        ),
    ),
    (
        "plan",
        "show a study's runs and the time they take, without starting anything",
        {"study": STUDY},
        ("--rounds", "--budget", "--between", "--runs-yaml", "--data"),
        (
            "rqps plan demo",
            "rqps plan demo --rounds 1",
            "rqps plan demo --budget 30m  what half an hour could tell",
            "rqps plan demo --between 22:00-06:00  how many nights",
        ),
    ),
    (
        "run",
        "measure the runs of a study that are missing, and no others",
        {"study": STUDY},
        (
            *("--rounds", "--budget", "--between", "--occasion", "--archive", "--make", "--rebuilt", "--note"),
            "--scheduler",
            *("--runs-yaml", "--data"),
        ),
        (
            "rqps run demo             all that is missing",
            "rqps run demo --rounds 1  a quick try",
            "rqps run demo --budget 30m  until all is decided, or for half an hour",
            "rqps run demo --between 22:00-06:00  at night; by day it waits",
            "rqps run demo --occasion  a further occasion: ratios of three hold for other hours too",
            "rqps run demo --archive   set aside what was measured before, and measure it all again",
            "rqps run mine --make      builds its servers from source before",
            "rqps run mine --rebuilt   a build was rebuilt: keep what was measured, and measure it as it is now",
        ),
    ),
    (
        "try",
        "measure a build that you work on, after each make; or a statement of your own on several dbms",
        {
            "steps": {"nargs": "*", "metavar": "STEP", "help": TRIED},
            "--build": {"metavar": "PATH", "help": "its directory, or its name in runs.yaml"},
            "--against": {"choices": ("last", "base"), "default": "last", "help": AGAINST},
            "--base": {"metavar": "DBMS", "default": "", "help": BASE},
            "--config": {"metavar": "CONFIG", "default": "", "help": CONFIG},
            "--tables": {"type": Path, "metavar": "FILE", "help": "of a statement: SQL or a dump with its tables"},
            "--dbms": {
                "nargs": "+",
                "default": (),
                "metavar": "DBMS",
                "help": "of a statement: the base, and others",
            },
            "--values": {"nargs": "+", "default": (), "metavar": "NAME=VALUES", "help": VALUES},
        },
        ("--note", "--rounds", "--runs-yaml", "--data"),
        (
            "rqps try --build ~/db/install                    keep it as it is, as the base",
            "rqps try --build ~/db/install --note 'no memcpy'  after make: what did the change do?",
            "rqps try --build ~/db/install point-query --base my8033.common --against base",
            "rqps try 'SELECT * FROM orders WHERE id = ?' --tables shop.sql --values id=1..60000 "
            "--dbms my5624.common my8033.common  two minutes of a statement of your own",
        ),
    ),
    (
        "watch",
        "measure a build that moves whenever it is another one, and name the changes that nobody has acknowledged",
        {
            "study": STUDY,
            "--acknowledge": {"nargs": "+", "default": (), "metavar": "STEP", "help": ACKNOWLEDGE},
            "--remark": {"metavar": "TEXT", "default": "", "help": "why these changes are as they should be"},
            "--branch": {"default": "", "metavar": "NAME", "help": BRANCH},
            "--checkout": {"type": Path, "metavar": "FOLDER", "help": "the git repository of the branch"},
            "--make": {"default": "", "metavar": "COMMAND", "help": MAKE},
            "--markdown": {"action": "store_true", "help": "the answer as Markdown, for the summary of a CI job"},
        },
        ("--note", "--runs-yaml", "--data"),
        (
            "rqps watch nightly             by cron, a timer or a CI job: exit code 3 if a step is slower",
            "rqps watch nightly --markdown  the same for the summary of a CI job",
            "rqps watch nightly --branch origin/main --checkout ~/db --make './build.sh $PREFIX'",
            "rqps watch nightly --acknowledge point-query --remark 'checks each page'",
        ),
    ),
    (
        "status",
        "show what is done, failed or missing, and the run under way",
        {
            "study": {**STUDY, "nargs": "?", "help": "its name in runs.yaml; every study if not given"},
            "--watch": {"action": "store_true", "help": "show it again and again, until Ctrl-C"},
        },
        ("--check", "--runs-yaml", "--data"),
        (
            "rqps status          one line per study",
            "rqps status demo     each of its runs",
            "rqps status --watch  what is measured now, its step and the time left",
            "rqps status --check  are tables, manifests and cards as they were, to the last byte?",
        ),
    ),
    (
        "show",
        "show the answer of a study in the terminal: each step's ratio, interval and verdict",
        {
            "study": {**STUDY, "help": "measured here, or one that came with the checkout"},
            "--steps": {"nargs": "+", "metavar": "STEP", "help": "only these; * stands for anything"},
            "--all": {"action": "store_true", "help": "also CPU and instructions, and whatever is undecided"},
            "--markdown": {"action": "store_true", "help": "as tables in Markdown, for an issue or a review"},
        },
        ("--data",),
        ("rqps show demo", "rqps show sysbench-releases --steps 'read-*' scan --all"),
    ),
    (
        "report",
        "render a study to pages that work offline, or set two side by side, or check the numbers of a report",
        {
            "study": {**STUDY, "nargs": "*", "help": PLACE},
            "--single-file": {"action": "store_true", "help": "also make one file of the pages, FOLDER/STUDY.html"},
            "--with-data": {"action": "store_true", "help": "put the data into it, as `rqps pack` packs them"},
            "--without-statements": {"action": "store_true", "help": WITHOUT},
            "--check": {"type": Path, "metavar": "REPORT", "help": CHECK},
        },
        ("--out", "--data"),
        (
            "rqps report demo                            a folder of pages",
            "rqps report demo.rqps --out /tmp/demo",
            "rqps report demo --single-file --with-data  one file to send",
            "rqps report --check demo                    are its numbers those of its data?",
            "rqps report june.rqps demo                  two studies side by side",
        ),
    ),
    (
        "import",
        "make a study of results that somebody else measured: folders of mytools, sysbench's output, CSV, parquet",
        {
            "folders": {"nargs": "+", "metavar": "DIR", "help": "folders or files; a dbms in several has rounds"},
            "--study": {
                "metavar": "NAME",
                "default": "",
                "help": "the study's name; the first folder's if not given",
            },
            "--base": {"metavar": "DBMS", "default": "", "help": "the base; the oldest version if not given"},
            "--question": {"metavar": "TEXT", "default": "", "help": "the study's question, in a sentence"},
            "--host": {"metavar": "NAME", "default": "", "help": "the host, where the results name none"},
            "--engine": {"metavar": "ENGINE", "default": "", "help": "the engine, where the results name none"},
            "--as": {"nargs": "+", "default": (), "metavar": "SOURCE=DBMS", "dest": "as_", "help": RENAMED},
        },
        ("--data",),
        (
            "rqps import ~/results/nov25                  one run of each dbms",
            "rqps import round1 round2 round3 --study theirs",
            "rqps import nov25 --as my8044_rel.z12a=my8044.common  to set it beside a study of your own",
            "rqps report theirs ours                      two studies side by side",
        ),
    ),
    (
        "pack",
        "make a few files of a study's many, to send or to keep, or make folders of them again",
        {
            "study": {**STUDY, "help": PLACE},
            "--unpack": {"action": "store_true", "help": "make folders of runs from a packed study"},
            "--without-statements": {"action": "store_true", "help": WITHOUT},
            "--out": {"type": Path, "metavar": "PLACE", "help": PACKED},
        },
        ("--data",),
        (
            "rqps pack demo                      all of it in one file, demo.rqps",
            "rqps pack demo --out /mnt/studies   one parquet file a table, in /mnt/studies/study=demo",
            "rqps pack shop --without-statements  no SQL, no values, no words of errors",
            "rqps pack demo.rqps --unpack        into data/raw, where `rqps run` goes on from it",
        ),
    ),
    (
        "bisect",
        "find the builds between two that changed a step: by duets, or by counted instructions",
        {
            "study": {"metavar": "STUDY", "help": BISECTED},
            "step": {"metavar": "STEP", "help": "one of its steps"},
            "--good": {"required": True, "metavar": "BUILD", "help": ONE_END},
            "--bad": {"required": True, "metavar": "BUILD", "help": "the other end"},
            "--builds": {"nargs": "+", "default": (), "metavar": "BUILD", "help": BETWEEN_ENDS},
            "--every": {"type": int, "default": 1, "metavar": "N", "help": EVERY},
            "--checkout": {"type": Path, "metavar": "FOLDER", "help": CHECKOUT},
            "--make": {"default": "", "metavar": "COMMAND", "help": MAKE},
            "--count": {"action": "store_true", "help": "count instructions, which needs no quiet machine"},
            "--occasion": {"action": "store_true", "help": ANOTHER_HOUR},
        },
        ("--runs-yaml", "--data"),
        (
            "rqps bisect demo point-query --good my5624 --bad my97 --count",
            "rqps bisect demo point-query --good my5624 --bad my97 --builds my8033",
            "rqps bisect mine point-query --good v1.4 --bad main --checkout ~/db --make './build.sh $PREFIX'",
        ),
    ),
    (
        "investigate",
        "look into one regression, in JupyterLab: the step and dbms that differ most, if none is named",
        {
            "study": {**STUDY, "help": "measured here, or one that came with the checkout"},
            "step": {"nargs": "?", "metavar": "STEP", "help": "one of its steps"},
            "dbms": {"nargs": "?", "metavar": "DBMS", "help": "one of its dbms"},
            "--page": {"action": "store_true", "help": "only write the page, which needs no JupyterLab"},
        },
        ("--data",),
        ("rqps investigate where-did-it-go", "rqps investigate demo point-query my8033.common --page"),
    ),
)
"""The name of each command, what it does, its own arguments, the shared options it takes, and examples."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        show_what_it_can(stream)
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        import argcomplete

        argcomplete.autocomplete(parser)
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    code = BAD_INPUT
    try:
        name = f"{arguments.command}_" if iskeyword(arguments.command) else arguments.command
        call: commands.Call = getattr(commands, name)(arguments)
        code = commands.FAILED
        code = call()
        sys.stdout.flush()
    except RqpsError as error:
        print(printable(str(error)), file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python's own flush at exit fails
        return PIPE_CLOSED
    except OSError as error:
        print(printable(str(of_the_system(error))), file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="rqps", description=ABOUT, epilog=FIRST_STEPS, formatter_class=as_written)
    parser.add_argument("--version", action="version", version=f"rqps {__version__}")
    every = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, does, own, options, examples in COMMANDS:
        about = f"{does[0].upper()}{does[1:]}."
        shown = "\n".join(["examples:", *(f"  {example}" for example in examples)])
        command = every.add_parser(name, help=does, description=about, epilog=shown, formatter_class=as_written)
        for argument, settings in (own | {option: ARGUMENTS[option] for option in options}).items():
            made = command.add_argument(argument, **settings)
            made.completer = commands.known_studies if argument == "study" else None  # type: ignore[attr-defined]
    return parser


if __name__ == "__main__":
    sys.exit(main())
