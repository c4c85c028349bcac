"""The report of the insert benchmark: as it is published, and what that form leaves out."""

from typing import Any

from rqps.pages.insert_benchmark_report.charts import over_time, settling_chart
from rqps.pages.insert_benchmark_report.columns import column_rounds, columns_text
from rqps.pages.insert_benchmark_report.published_tables import response_times, summary_table
from rqps.pages.insert_benchmark_report.sentences import findings
from rqps.pages.insert_benchmark_report.tables import dbms_tables, number_table
from rqps.published import read
from rqps.published.releases import inserts_beside, inserts_differ
from rqps.show import Column, Nothing, Sentences, table
from rqps.store.read import Study

__all__ = ["beside", "column_rounds", "columns_text", "dbms_tables", "findings"]
__all__ += ["number_table", "over_time", "response_times", "settling_chart", "summary_table"]


def beside(study: Study) -> list[Any]:
    """A table of the published ratios beside ours, and sentences on what differs between the studies."""
    figures = read()
    found, differ = inserts_beside(figures, study), Sentences(inserts_differ(figures, study))
    if found.is_empty():
        return [Nothing(["These releases and steps have nothing in common with those of the published studies."])]
    columns = [Column(name, {"theirs": "published"}.get(name, "")) for name in found.columns if name != "compared"]
    note = "Ratios of throughput. Ours: the mean of the rounds and its interval."
    return [table(found, columns, name="inserts-beside", group="compared", note=note), differ]
