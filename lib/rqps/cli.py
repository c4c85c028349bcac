"""The command `rqps`: parses the command line and calls the function of each command."""

import argparse
import os
import sys
from collections.abc import Sequence
from keyword import iskeyword
from pathlib import Path
from typing import Any

from rqps import __version__, commands, save_cpu
from rqps.errors import RqpsError, of_the_system
from rqps.terminal import printable, show_what_it_can

BAD_INPUT = 2
STOPPED = 130
PIPE_CLOSED = 141

ABOUT = "Measures what a database change costs: a release, a build flag, an option, instrumentation."
FIRST_STEPS = """\
what to do first:
  rqps doctor              check whether this machine is fit to measure on, and what would improve it
  rqps plan demo           list the runs of the study `demo` of runs.yaml, and the time they take
  rqps run demo            measure it; after Ctrl-C, the same command continues
  rqps report demo         render the results as pages

environment:
  RQPS_CACHE    the folder of servers, tools and loaded tables; ~/.cache/rqps if not set
  RQPS_SCRATCH  the folder for the copies of tables that are measured; in the cache if not set
  RQPS_DATA     the folder of results; data beside runs.yaml if not set

exit codes: 0 success, 1 something failed, 2 bad input, 3 `watch` found a slower step, 130 stopped by Ctrl-C
"""

STUDY: dict[str, Any] = {"metavar": "STUDY", "help": "the study's name in runs.yaml"}
PLACE = "the study's name, if it was measured here or is a sample; or its folder, packed file or URL"
BISECTED = "a study of runs.yaml, of which the workload, parameters and config are used"
ONE_END = "one end: a build of runs.yaml, or a version of the catalogue"
BETWEEN_ENDS = "the builds between the ends, in order; if not given, all versions of the catalogue between them"
RENAMED = "new names for dbms, such as their names in a study to compare with"
PACKED = "a file that ends in .rqps, or the folder for study=STUDY; STUDY.rqps if not given, or data/raw to unpack"
CHECK = "make the report again, from the data inside it or else from the study's data, and compare every number"
FETCHED = "for fetch: a build of runs.yaml, or an engine and a version; for list: an engine"
ROUNDS = "only the first N rounds, for a quick try; a later run without this option adds the other rounds"
BUDGET = "the total time, such as 30m: one round of all dbms, then further rounds of undecided comparisons"
BETWEEN = "only within these hours of each day, such as 22:00-06:00: a run starts only if it should end within them"
SCHEDULER = "a Dask scheduler, tls://NAME:PORT, in place of SSH; its workers have the names of the study's hosts"
BUILDS = "builds of runs.yaml with a source and a recipe; list shows all of them if none is named"
MAKE_FIRST = "first make the builds that are made from source and are not made yet"
REBUILT = "measure builds that were rebuilt at their path; earlier results are kept beside the new ones"
ACKNOWLEDGE = "measure nothing; write into acknowledged.yaml that these steps' changes are known; * matches any text"
ANOTHER_HOUR = "measure the change that was found once more now, from newly loaded tables"
EVERY = "only every N-th build of the list: quicker, but the result is a range of N builds"
CHECKOUT = "a git repository: the ends are its revisions, and the candidates are the commits between them"
MAKE = "the command that builds a commit in the folder of a checkout and installs it below $PREFIX"
RECIPE = "in place of --make: build each commit by this recipe of the study's engine, such as gcc o2"
BRANCH = "first build the last commit of this branch, and install it at the path of the study's build"
AGAINST = "compare with the previous version and the base (last), or with the base alone; last if not given"
BASE = "a dbms of runs.yaml as the base; the first version of the build if not given"
CONFIG = "the build's options: a config of runs.yaml; the options of the base if not given"
TRIED = "steps, those of the build's last try if not given; or a statement in quotes"
VALUES = "for a statement: values of each ? in order, or of {NAME}: 1..9, TABLE.COLUMN, or '[a, b]'"
WITHOUT = "leave out text that may contain your data: SQL, values, explained statements, error messages"
RUNS_YAML = "the file with builds, configs and studies; the nearest runs.yaml here or above if not given"
DATA = "the folder of results; $RQPS_DATA if not given, else data beside runs.yaml"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--rounds": {"type": int, "metavar": "N", "help": ROUNDS},
    "--budget": {"metavar": "TIME", "help": BUDGET},
    "--between": {"metavar": "HOURS", "help": BETWEEN},
    "--scheduler": {"metavar": "ADDRESS", "default": "", "help": SCHEDULER},
    "--runs-yaml": {"type": Path, "metavar": "FILE", "help": RUNS_YAML},
    "--data": {"type": Path, "metavar": "FOLDER", "help": DATA},
    "--check": {"action": "store_true", "help": "compare the digests of all results; logs and notebooks have none"},
    "--disk": {
        "action": "store_true",
        "help": "measure the disk by 3 s of reads and writes past the page cache (O_DIRECT); plan does so anyway for "
        "a study that depends on the disk",
    },
    "--occasion": {"action": "store_true", "help": "measure the study once more now, from newly loaded tables"},
    "--archive": {"action": "store_true", "help": "first set aside the earlier results"},
    "--make": {"action": "store_true", "help": MAKE_FIRST},
    "--rebuilt": {"action": "store_true", "help": REBUILT},
    "--note": {
        "metavar": "TEXT",
        "default": "",
        "help": "a remark on the current version of a build, such as 'without the memcpy'",
    },
    "--out": {
        "type": Path,
        "metavar": "FOLDER",
        "help": "write the pages to FOLDER/STUDY; FOLDER is report in the data folder if not given",
    },
}
COMMANDS: tuple[tuple[str, str, dict[str, dict[str, Any]], tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "doctor",
        "check what makes measurements on this machine less exact, and how to fix it",
        {},
        ("--data",),
        ("rqps doctor", "rqps doctor --data /mnt/fast/data"),
    ),
    (
        "servers",
        "list the servers that can be fetched, or fetch one",
        {
            "what": {"nargs": "?", "choices": ("list", "fetch"), "default": "list", "help": "list, if not given"},
            "names": {"nargs": "*", "metavar": "NAME", "help": FETCHED},
        },
        ("--runs-yaml",),
        (
            "rqps servers                      builds of runs.yaml, and the versions of each engine",
            "rqps servers list ENGINE          all versions of one engine: source, size, fetched or not",
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
            "--jobs": {"type": int, "metavar": "N", "help": "compile N files at once; one per CPU if not given"},
            "--nice": {
                "type": int,
                "default": 10,
                "metavar": "N",
                "help": "the niceness of compilers; 10 if not given",
            },
        },
        ("--runs-yaml",),
        (
            "rqps builds                               all of them, made or not",
            "rqps builds list pg15_gcc_pgo             what it takes: source, compiler, flags, disk",
            "rqps builds make pg15_gcc_o2 pg15_gcc_o3  after Ctrl-C, the same command continues",
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
            "rqps hosts              can all hosts be reached, and are they ready to measure?",
            "rqps hosts prepare      put this checkout and its environment on each host",
            "rqps hosts prepare big  on one host",
        ),
    ),
    (
        "plan",
        "show a study's runs and the time they take, without starting anything",
        {"study": STUDY},
        ("--rounds", "--budget", "--between", "--disk", "--runs-yaml", "--data"),
        (
            "rqps plan demo",
            "rqps plan demo --rounds 1",
            "rqps plan demo --budget 30m  the rounds that half an hour is enough for",
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
            "rqps run demo             measure all missing runs",
            "rqps run demo --rounds 1  a quick try",
            "rqps run demo --budget 30m  until all is decided, but at most half an hour",
            "rqps run demo --between 22:00-06:00  at night; by day it waits",
            "rqps run demo --occasion  a further occasion: ratios of three occasions hold for other hours, too",
            "rqps run demo --archive   set aside the earlier results, and measure everything again",
            "rqps run mine --make      first make its builds from source",
            "rqps run mine --rebuilt   after a rebuild: keep the earlier results, and measure the new version",
        ),
    ),
    (
        "try",
        "measure a build that you work on, after each make; or a statement of your own on several dbms",
        {
            "steps": {"nargs": "*", "metavar": "STEP", "help": TRIED},
            "--build": {"metavar": "PATH", "help": "the build's directory, or its name in runs.yaml"},
            "--against": {"choices": ("last", "base"), "default": "last", "help": AGAINST},
            "--base": {"metavar": "DBMS", "default": "", "help": BASE},
            "--config": {"metavar": "CONFIG", "default": "", "help": CONFIG},
            "--tables": {"type": Path, "metavar": "FILE", "help": "for a statement: SQL or a dump of its tables"},
            "--dbms": {
                "nargs": "+",
                "default": (),
                "metavar": "DBMS",
                "help": "for a statement: the base, then the other dbms",
            },
            "--values": {"nargs": "+", "default": (), "metavar": "NAME=VALUES", "help": VALUES},
            "--rounds": {"type": int, "metavar": "N", "help": "for a build: the number of rounds; 4 if not given"},
        },
        ("--note", "--runs-yaml", "--data"),
        (
            "rqps try --build ~/db/install                    keeps a copy of the build as the base",
            "rqps try --build ~/db/install --note 'no memcpy'  after make: what did the change do?",
            "rqps try --build ~/db/install point-query --base my8033.common --against base",
            "rqps try 'SELECT * FROM orders WHERE id = ?' --tables shop.sql --values id=1..60000 "
            "--dbms my5624.common my8033.common  two minutes of a statement of your own",
        ),
    ),
    (
        "watch",
        "measure a build after each rebuild, and list the changes that nobody has acknowledged",
        {
            "study": STUDY,
            "--acknowledge": {"nargs": "+", "default": (), "metavar": "STEP", "help": ACKNOWLEDGE},
            "--remark": {"metavar": "TEXT", "default": "", "help": "the reason why these changes are accepted"},
            "--branch": {"default": "", "metavar": "NAME", "help": BRANCH},
            "--checkout": {"type": Path, "metavar": "FOLDER", "help": "the git repository of the branch"},
            "--make": {"default": "", "metavar": "COMMAND", "help": MAKE},
            "--recipe": {"nargs": "+", "default": (), "metavar": "PART", "help": RECIPE},
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
        "show the runs that are done, failed or missing, and the current run",
        {
            "study": {**STUDY, "nargs": "?", "help": "the study's name in runs.yaml; all studies if not given"},
            "--watch": {"action": "store_true", "help": "repeat until Ctrl-C"},
        },
        ("--check", "--runs-yaml", "--data"),
        (
            "rqps status          one line per study",
            "rqps status demo     one line per run",
            "rqps status --watch  the current run, its step and the time left",
            "rqps status --check  have tables, manifests or cards changed since they were written?",
        ),
    ),
    (
        "show",
        "show the answer of a study in the terminal: each step's ratio, interval and verdict",
        {
            "study": {**STUDY, "help": "a study that was measured here, or a sample"},
            "--steps": {"nargs": "+", "metavar": "STEP", "help": "only these; * matches any text"},
            "--all": {"action": "store_true", "help": "also CPU, instructions and all other metrics"},
            "--markdown": {"action": "store_true", "help": "as tables in Markdown, for an issue or a review"},
        },
        ("--data",),
        ("rqps show demo", "rqps show sysbench-releases --steps 'read-*' scan --all"),
    ),
    (
        "report",
        "render a study as pages that work offline, compare two studies, or check the numbers of a report",
        {
            "study": {**STUDY, "nargs": "*", "help": PLACE},
            "--single-file": {"action": "store_true", "help": "also make one file of the pages, FOLDER/STUDY.html"},
            "--with-data": {"action": "store_true", "help": "include the data, packed as by `rqps pack`"},
            "--without-statements": {"action": "store_true", "help": WITHOUT},
            "--check": {"type": Path, "metavar": "REPORT", "help": CHECK},
        },
        ("--out", "--data"),
        (
            "rqps report demo                            a folder of pages",
            "rqps report demo.rqps --out /tmp/demo",
            "rqps report demo --single-file --with-data  one file to send",
            "rqps report --check demo                    do the report's numbers agree with its data?",
            "rqps report june.rqps demo                  two studies side by side",
        ),
    ),
    (
        "import",
        "import results that somebody else measured as a study: folders of mytools, sysbench's output, CSV, parquet",
        {
            "folders": {"nargs": "+", "metavar": "DIR", "help": "folders or files, one per round of a dbms"},
            "--study": {
                "metavar": "NAME",
                "default": "",
                "help": "the study's name; the first folder's if not given",
            },
            "--base": {"metavar": "DBMS", "default": "", "help": "the base; the oldest version if not given"},
            "--question": {"metavar": "TEXT", "default": "", "help": "the study's question, in a sentence"},
            "--host": {"metavar": "NAME", "default": "", "help": "the host, if the results name none"},
            "--engine": {"metavar": "ENGINE", "default": "", "help": "the engine, if the results name none"},
            "--as": {"nargs": "+", "default": (), "metavar": "SOURCE=DBMS", "dest": "as_", "help": RENAMED},
        },
        ("--data",),
        (
            "rqps import ~/results/nov25                  one run of each dbms",
            "rqps import round1 round2 round3 --study theirs",
            "rqps import nov25 --as my8044_rel.z12a=my8044.common  to compare it with a study of your own",
            "rqps report theirs ours                      two studies side by side",
        ),
    ),
    (
        "pack",
        "pack a study into one file or a few, to send or to keep, or unpack it",
        {
            "study": {**STUDY, "help": PLACE},
            "--unpack": {"action": "store_true", "help": "unpack a packed study into folders of runs"},
            "--without-statements": {"action": "store_true", "help": WITHOUT},
            "--out": {"type": Path, "metavar": "PLACE", "help": PACKED},
        },
        ("--data",),
        (
            "rqps pack demo                      into one file, demo.rqps",
            "rqps pack demo --out /mnt/studies   one parquet file per table, in /mnt/studies/study=demo",
            "rqps pack shop --without-statements  no SQL, no values, no error messages",
            "rqps pack demo.rqps --unpack        into data/raw, where `rqps run` can add rounds",
        ),
    ),
    (
        "bisect",
        "find the builds between two builds that changed a step, by duets or by counted instructions",
        {
            "study": {"metavar": "STUDY", "help": BISECTED},
            "step": {"metavar": "STEP", "help": "a step of the study"},
            "--good": {"required": True, "metavar": "BUILD", "help": ONE_END},
            "--bad": {"required": True, "metavar": "BUILD", "help": "the other end"},
            "--builds": {"nargs": "+", "default": (), "metavar": "BUILD", "help": BETWEEN_ENDS},
            "--every": {"type": int, "default": 1, "metavar": "N", "help": EVERY},
            "--checkout": {"type": Path, "metavar": "FOLDER", "help": CHECKOUT},
            "--make": {"default": "", "metavar": "COMMAND", "help": MAKE},
            "--recipe": {"nargs": "+", "default": (), "metavar": "PART", "help": RECIPE},
            "--count": {"action": "store_true", "help": "count instructions, which needs no quiet machine"},
            "--occasion": {"action": "store_true", "help": ANOTHER_HOUR},
        },
        ("--runs-yaml", "--data"),
        (
            "rqps bisect demo point-query --good my5624 --bad my97 --count",
            "rqps bisect demo point-query --good my5624 --bad my97 --builds my8033",
            "rqps bisect mine point-query --good v1.4 --bad main --checkout ~/db --make './build.sh $PREFIX'",
            "rqps bisect mine point-query --good v1.4 --bad main --checkout ~/db --recipe gcc o2",
        ),
    ),
    (
        "investigate",
        "explain one regression in JupyterLab: the largest one if no step is named",
        {
            "study": {**STUDY, "help": "a study that was measured here, or a sample"},
            "step": {"nargs": "?", "metavar": "STEP", "help": "a step of the study"},
            "dbms": {"nargs": "?", "metavar": "DBMS", "help": "a dbms of the study"},
            "--page": {"action": "store_true", "help": "only write the page, which needs no JupyterLab"},
        },
        ("--data",),
        ("rqps investigate where-did-it-go", "rqps investigate demo point-query my8033.common --page"),
    ),
)
"""The name of each command, what it does, its own arguments, the shared options it takes, and examples."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    save_cpu()
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


class _Command(argparse.ArgumentParser):
    """The parser of a command: options may stand between its other arguments (`builds make --jobs 4 NAME`)."""

    intermixed = False

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if self.intermixed:
            return super().parse_known_args(args, namespace)
        self.intermixed = True  # parse_known_intermixed_args itself calls parse_known_args
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.intermixed = False


def _parser() -> argparse.ArgumentParser:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="rqps", description=ABOUT, epilog=FIRST_STEPS, formatter_class=as_written)
    parser.add_argument("--version", action="version", version=f"rqps {__version__}")
    every = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=_Command)
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
