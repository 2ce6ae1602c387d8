"""One page on one or several runs that needs nothing else: `write_report`."""

from __future__ import annotations

from rl_training.experiment.report.writing import write_report

__all__ = ["write_report"]
