"""The servers that can be had by name, read from `catalogue.yaml`."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rqps.errors import RqpsError
from rqps.study.runs_file import BuildSpec, Sha256


class Entry(BaseModel):
    """Where a version comes from, how large it is, and what of it is kept."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    from_: dict[str, str] = Field(alias="from")
    sha256: Sha256 | None = None
    archive_bytes: int
    kept_bytes: int
    keep: list[str] = Field(default_factory=list)
    """Globs, in which `*` matches `/` too. None: all but what no server needs."""
    libraries: list[str] = Field(default_factory=list)

    def spec(self, version: str) -> BuildSpec:
        given: dict[str, Any] = {**self.from_, "mysql": version, "sha256": self.sha256}
        return BuildSpec.model_validate(given)


@cache
def catalogue() -> dict[str, Entry]:
    """The entries by version, oldest first."""
    text = files("rqps.engines.mysql").joinpath("catalogue.yaml").read_text()
    return {version: Entry.model_validate(entry) for version, entry in yaml.safe_load(text).items()}


def look_up(name: str, version: str) -> tuple[BuildSpec, Entry]:
    """The source of a version: `9.7.4` is looked up in `9.7`, but must then be 9.7.4."""
    for known, entry in catalogue().items():
        if version == known or version.startswith(f"{known}."):
            return entry.spec(version), entry
    raise RqpsError(
        f"builds.{name}: mysql {version} is not in the catalogue, which has {', '.join(catalogue())}",
        fix=f"take one of these, or give a source beside the version: path: (your own build), url: and sha256: "
        f"(the vendor's archive), maven:, npm:, debian: and suite:, on_path: true; as in "
        f'{{path: /opt/mysql-{version}, mysql: "{version}"}}',
    )
