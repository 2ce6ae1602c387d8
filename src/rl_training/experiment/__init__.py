"""One run, from a configuration file to a checkpoint that answers: configurations, registry, workflows."""
