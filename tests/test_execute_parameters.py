"""A notebook that does not take exactly what it is given is refused before anything runs."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from rqps.errors import RqpsError
from rqps.notebook import check_parameters

GIVEN = {"runs_yaml": "runs.yaml", "study": "demo"}
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def notebook(path: Path, source: str, *, tags: tuple[str, ...] = ("parameters",)) -> Path:
    cell = new_code_cell(source, metadata={"tags": list(tags)})
    nbformat.write(new_notebook(cells=[cell], metadata=PYTHON), path / "one.ipynb")
    return path / "one.ipynb"


def refusal(path: Path) -> str:
    with pytest.raises(RqpsError) as refused:
        check_parameters(path, GIVEN)
    assert str(path) in refused.value.message
    return str(refused.value)


def test_a_notebook_that_fits(tmp_path: Path) -> None:
    check_parameters(notebook(tmp_path, "runs_yaml: str = 'runs.yaml'  # the file\nstudy: str = 'demo'"), GIVEN)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("runs_yml: str = ''\nstudy: str = ''", "it does not take 'runs_yaml' (is 'runs_yml' meant?)"),
        ("study: str = ''", "it does not take 'runs_yaml'"),
        (
            "runs_yaml: str = ''\nstudy: str = ''\nseconds: int = 3",
            "'seconds' is not given and would keep its default",
        ),
        ("runs_yaml: str = ''\nstudy: int = 3", "'study' is int there, and str is given"),
    ],
)
def test_one_that_takes_something_else(tmp_path: Path, source: str, said: str) -> None:
    assert said in refusal(notebook(tmp_path, source))


def test_one_without_the_tag(tmp_path: Path) -> None:
    text = refusal(notebook(tmp_path, "runs_yaml: str = ''\nstudy: str = ''", tags=()))
    assert "no cell tagged `parameters`" in text
    assert "one line `name: str = default` for each of: runs_yaml, study" in text


def test_none_at_all_and_something_else(tmp_path: Path) -> None:
    assert "there is no such notebook" in refusal(tmp_path / "none.ipynb")
    (tmp_path / "text.ipynb").write_text("not a notebook")
    assert "not a notebook" in refusal(tmp_path / "text.ipynb")
    (tmp_path / "list.ipynb").write_text("[]")
    assert "not a notebook" in refusal(tmp_path / "list.ipynb")
