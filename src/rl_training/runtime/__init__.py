"""One loop: data sources, engine, evaluation, callbacks, checkpoints, run directory, trainers."""
