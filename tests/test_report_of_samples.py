"""A sample is rendered as its readers would, also where its steps are too short for what is published."""

from pathlib import Path

from rqps.report import build

ROOT = Path(__file__).parent.parent
NOTEBOOK = "cost_per_operation"


def test_steps_of_less_than_a_second_have_a_page_too(tmp_path: Path) -> None:
    """A scan of the MEMORY engine is over before vmstat would show a line of it."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / f"notebooks/{NOTEBOOK}.ipynb").symlink_to(ROOT / f"notebooks/analysis/{NOTEBOOK}.ipynb")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/sample").symlink_to(ROOT / "data/sample")
    index = build("point-lookups", tmp_path / "data", tmp_path / "report", tmp_path / "notebooks")
    assert (index.parent / f"{NOTEBOOK}.html").is_file()
    assert "This study has no profiles." in index.read_text()
