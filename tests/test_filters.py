"""A reader's own filter reaches the sentences of a page, as it reaches its tables and charts."""

import re
from pathlib import Path

import pytest
import rqps
from executed import Notebook

ONE_STEP = 'col("step") == "{}"'
OF_READS = 'col("group") == "Range queries without aggregation"'


def findings(name: str, study: rqps.Study, of_interest: str) -> str:
    """The first sentences of a page below its question."""
    _, of_page, *_ = Notebook(name, study, of_interest).outputs
    return "\n".join(of_page.sentences)


@pytest.mark.parametrize(
    ("page", "name", "step", "of_interest"),
    [
        ("history", "releases", "range-covered-si", OF_READS),
        ("writes_explained", "writes-of-inserts", "l.i1", ONE_STEP),
        ("waiting", "waits-of-updates", "update-zipf", ONE_STEP),
        ("flamegraph_breakdown", "where-did-it-go", "range-covered-si", OF_READS),
    ],
)
def test_sentences_are_about_the_steps_of_the_filter(
    page: str, name: str, step: str, of_interest: str, samples: Path
) -> None:
    study = rqps.load(name, samples)
    text = findings(page, study, of_interest.format(step))
    named = {one for one in study.steps["step"] if re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w-])", text)}
    assert named == {step}, text


def test_the_differences_that_a_filter_leaves_are_counted(samples: Path) -> None:
    study = rqps.load("releases", samples)
    page = Notebook("imported_results", study, OF_READS)
    left = page["differences"].filter(step="range-covered-si").drop_nulls("floor_1").height
    assert left == page["differences"].drop_nulls("floor_1").height > 0
    assert f" of {left} difference" in page.outputs[1].sentences[0]


def test_one_dbms_has_sentences_without_its_base(samples: Path) -> None:
    study = rqps.load("writes-of-inserts", samples)
    me = next(name for name in study.card.dbms if name != study.card.base)
    text = findings("writes_explained", study, f'col("dbms") == "{me}"')
    assert rqps.stats.short_names(study)[me] in text
    assert rqps.stats.short_names(study)[study.card.base] not in text
