"""What `rl-training` says when nothing is asked of it: the way from a file to a policy, in one screenful."""

from __future__ import annotations

WELCOME = """\
rl-training {version}: from logged transitions to a policy, and how good it is

From your file to a policy
  rl-training init log.csv              look at the file, write a config.yaml
  rl-training data check -c config.yaml  what is in it, what is wrong, where
  rl-training data split -c config.yaml -o train.csv aside.csv  to judge it by
  rl-training train -c config.yaml      train (--dry-run: what, and how long)
  rl-training runs                      every run, its status and its scores
  rl-training evaluate RUN [--offline]  its score in an environment, or by data
  rl-training report RUN                a page with curves, scores and more
  rl-training predict RUN --obs 1,0,0   the policy's action
  rl-training export RUN                one ONNX file that runs anywhere

Without a file of your own
  rl-training demo                      train on embedded data, in a minute
  rl-training data collect --help       record data in an environment

What there is (each list also as --json)
  rl-training algos [NAME]              algorithms; parameters of one
  rl-training configs | datasets        ready configurations; data on this disk

Help
  rl-training doctor                    is this machine ready, and if not, why
  rl-training COMMAND --help            its options; --help: all commands
"""
