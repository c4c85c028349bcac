"""An analysis notebook, run on a study without a kernel."""

import ast
from pathlib import Path
from typing import Any

import nbformat
from great_tables import GT
from rqps.report.site import NOTEBOOKS
from rqps.store import Study

EVERYTHING = "pl.lit(True)"


class Notebook:
    """An analysis notebook run on a study: its values by name, what it shows, and the HTML of that. `of_interest` is
    a reader's own filter."""

    def __init__(self, name: str, study: Study, of_interest: str = EVERYTHING) -> None:
        self.html = ""
        self.outputs: list[Any] = []
        self.values: dict[str, Any] = {"display": self._display}
        cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=nbformat.NO_CONVERT).cells
        place = Path(study.place)
        for cell in [cell for cell in cells if cell.cell_type == "code"]:
            source = cell.source.replace(f"of_interest = {EVERYTHING}", f"of_interest = {of_interest}")
            body = ast.parse(source).body
            if "parameters" in cell.metadata.get("tags", ()):
                self.values |= {"study": str(place), "data": None}
                continue
            last = body.pop() if isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), name, "exec"), self.values)
            if isinstance(last, ast.Expr):
                self._display(eval(compile(ast.Expression(last.value), name, "eval"), self.values))

    def _display(self, *shown: Any) -> None:
        self.outputs += shown
        for output in shown:
            if isinstance(output, GT):
                self.html += output.as_raw_html()
            elif hasattr(output, "_repr_html_"):
                self.html += output._repr_html_()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def shown(self, name: str) -> str:
        """The HTML of one table."""
        return self.html.split(f'id="rqps-{name}"', 1)[1].split("</tbody>", 1)[0]
