"""pyproject.toml, the lock file, the conda environment and what is committed agree with each other."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = {
    canonicalize_name(one.name): one
    for one in map(
        Requirement,
        [
            *PROJECT["project"]["dependencies"],
            *PROJECT["project"]["optional-dependencies"]["hosts"],
            *PROJECT["dependency-groups"]["dev"],
        ],
    )
}
LOCK = (ROOT / "requirements.lock").read_text()
LOCKED = {
    canonicalize_name(one.name): one
    for one in (Requirement(line.rstrip(" \\")) for line in LOCK.splitlines() if re.match(r"[a-zA-Z0-9]", line))
}
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
# Programs that conda has and pip has not.
CONDA_ONLY = {"python", "pip", "mysql-server"}


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [ROOT / name for name in listed.split("\0") if (ROOT / name).is_file()]


@pytest.mark.parametrize("name", DECLARED)
def test_the_lock_holds_a_version_within_the_declared_range(name: str) -> None:
    (pin,) = LOCKED[canonicalize_name(name)].specifier
    assert pin.operator == "=="
    assert DECLARED[canonicalize_name(name)].specifier.contains(pin.version)


def test_every_locked_package_has_its_hashes_and_no_address() -> None:
    entries = re.split(r"\n(?=[a-zA-Z0-9])", LOCK.split("\n", 2)[2])
    assert len(entries) >= len(DECLARED)
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in LOCK


def test_the_conda_environment_asks_for_the_same_versions() -> None:
    *packages, pip = CONDA["dependencies"]
    conda = {str(canonicalize_name(one.name)): one.specifier for one in map(Requirement, packages)}
    assert pip == {"pip": ["--editable ."]}
    assert conda.keys() - CONDA_ONLY == DECLARED.keys()
    assert {name: conda[name] for name in DECLARED} == {name: item.specifier for name, item in DECLARED.items()}
    assert conda["python"] == PROJECT["project"]["requires-python"]
    assert CONDA["channels"] == ["conda-forge", "nodefaults"]


def test_no_committed_file_names_a_registry_or_a_home_directory() -> None:
    """Packages are asked for by name, so that every machine uses the registries that it is set up for."""
    registries = rb"pypi\.org|pythonhosted\.|npmjs\.|maven\.(?:apache\.)?org|(?:deb|snapshot)\.debian\.|anaconda\.org"
    homes = rb"(?<![\w.])/(?:root|home/(?!somebody)\w+|Users/\w+)/"
    results = {
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in committed()
        for match in re.finditer(rb"%b|%b" % (registries, homes), path.read_bytes())
    }
    assert sorted(results) == []


def test_a_wheel_holds_every_file_of_the_library(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    library = {path.relative_to(ROOT / "lib") for path in committed() if path.is_relative_to(ROOT / "lib")}
    for path in library:
        (tmp_path / "lib" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "lib" / path, tmp_path / "lib" / path)
    build = "import setuptools.build_meta as backend; backend.build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert {str(path) for path in library} - set(ZipFile(wheel).namelist()) == set()
