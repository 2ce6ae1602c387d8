"""What the system lacks, in one line: places, memory, threads."""

from __future__ import annotations

import os
import resource

from rl_training.cli import standard_streams
from rl_training.paths import NO_TEMPORARY_FOLDER, variable_naming
from rl_training.validation import printable

OUT_OF_MEMORY = "out of memory; smaller networks (algo_kwargs.*_hidden), batch_size, data or fewer seeds need less"


def told(error: Exception) -> str | None:
    """None of what is no fault of the system's."""
    if isinstance(error, OSError):  # a place that nothing before it could refuse, as one whose name is too long
        return _of_a_place(error)
    if isinstance(error, ImportError):
        if not any(words in str(error) for words in ("failed to map segment", "annot allocate memory")):
            return None
        return f"out of memory while libraries are loaded ({error}); see `ulimit -v`, or end other programs"
    if isinstance(error, SystemError):  # what Python makes of a library that finds no memory while it is loaded
        is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        return f"{OUT_OF_MEMORY}; see `ulimit -v`" if is_limited else None
    if "can't start new thread" in str(error):
        return "the system lets this process start no more threads; see `ulimit -u`, or end other programs"
    if isinstance(error, RuntimeError) and "memory" not in str(error) and "alloc" not in str(error):
        return None
    return OUT_OF_MEMORY


def _of_a_place(error: OSError) -> str | None:
    if "No usable temporary directory" in str(error):  # torch needs one as well
        return NO_TEMPORARY_FOLDER
    if error.filename is None or standard_streams.is_lost(error):
        return None
    place = os.fsdecode(error.filename)
    return f"{variable_naming(place)}{printable(place)}: {error.strerror}"
