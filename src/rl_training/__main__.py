"""`python -m rl_training` is the `rl-training` command."""

from rl_training.cli.main import main

main()
