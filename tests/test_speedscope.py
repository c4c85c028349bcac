"""What is exported for speedscope is what speedscope takes: by its published schema, and opened in the app itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, opened
from jsonschema import Draft7Validator  # type: ignore[import-untyped]
from rqps.profile import speedscope
from speedscope_app import app, opening
from synthetic_stacks import POINT, costs_of

pytestmark = pytest.mark.page

HOSTILE = {('a;b"', "<script>alert(1)</script>", "line\nend"): 2.5, ("do_command",): 1.0}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def test_the_file_is_as_the_schema_says() -> None:
    schema = json.loads((app() / "file-format-schema.json").read_text())
    document = json.loads(speedscope(costs_of({"base": POINT, "me": HOSTILE}), "base", "me", "point-query"))
    Draft7Validator.check_schema(schema)
    assert [error.message for error in Draft7Validator(schema).iter_errors(document)] == []
    del document["shared"]
    assert list(Draft7Validator(schema).iter_errors(document))


def test_the_app_shows_both_sides_with_their_costs(browser: Browser, tmp_path: Path) -> None:
    profile = tmp_path / "point-query.speedscope.json"
    profile.write_text(speedscope(costs_of({"base": POINT, "me": HOSTILE}), "base", "me", "point-query"))
    with opened(browser, app() / "index.html", 1280) as tab:
        tab.run(f"location.hash = {opening(profile, tmp_path)!r}; setTimeout(() => location.reload(), 0); 1")
        tab.wait_for("document.title.includes('base and me')")
        for kind in ("keydown", "keypress", "keyup"):
            tab.run(f"window.dispatchEvent(new KeyboardEvent('{kind}', {{key: '3', bubbles: true}})); 1")
        tab.wait_for("document.body.innerText.includes('(71%)')")  # the table's rows come after its head
        shown = tab.run("document.body.innerText")
        assert "me, point-query, µs/operation (2/2)" in shown
        assert shown.count("2.50µs (71%)") == 4  # three frames' totals, and what the last one costs itself
        assert shown.count("1.00µs (29%)") == 2
        assert 'a;b"' in shown
        assert "<script>alert(1)</script>" in shown
        assert tab.complaints() == []
