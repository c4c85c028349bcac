"""MySQL: the engine that is a server of its own, with SQL."""

from pathlib import Path
from typing import TYPE_CHECKING

from rqps.engines import Build, Prepared, Say

if TYPE_CHECKING:
    from rqps.engines.sources import Source
    from rqps.study import BuildSpec, Run


class Mysql:
    """The engine. What it needs is imported only when it is asked: to plan a study no server is started."""

    title = "MySQL"

    @property
    def prepared(self) -> type[Prepared]:
        from rqps.engines.mysql.prepared import PreparedServer

        return PreparedServer

    def source(self, name: str, spec: "BuildSpec") -> "Source":
        from rqps.engines.mysql.build import source

        return source(name, spec)

    def locate(self, name: str, spec: "BuildSpec", say: Say) -> Build:
        from rqps.engines.mysql.build import locate

        return locate(name, spec, say)

    def known_version(self, tree: Path) -> str | None:
        from rqps.engines.mysql.build import known_version

        return known_version(tree)

    def prepare(self, run: "Run", say: Say) -> Prepared:
        from rqps.engines.mysql.prepared import prepare

        return prepare(run, say)


ENGINE = Mysql()
