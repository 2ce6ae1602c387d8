"""The doctor of datasets: `examine` says what data are and what is wrong with them, before anything is trained."""

from __future__ import annotations

from rl_training.data.doctor.examination import describe, examine
from rl_training.data.doctor.findings import Distribution, Facts, Finding, Place, Report

__all__ = ["Distribution", "Facts", "Finding", "Place", "Report", "describe", "examine"]
