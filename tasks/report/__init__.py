"""The report of a study: comparison table, curves, figures, and one self-contained page."""

from tasks.report.results import MethodView, SampleView, StudyResults
from tasks.report.table import console_table, summary
from tasks.report.write import write_report, write_sample

__all__ = ["MethodView", "SampleView", "StudyResults", "console_table", "summary", "write_report", "write_sample"]
