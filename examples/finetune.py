"""Offline, then online: IQL from the embedded Pendulum data, fine-tuned in the environment.

python examples/finetune.py --offline 2000 --online 2000
"""

from __future__ import annotations

import argparse

from rl_training.experiment import manager
from rl_training.experiment.config import read_config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offline", type=int, default=2000, help="gradient updates on the data")
    parser.add_argument("--online", type=int, default=2000, help="steps in the environment")
    parser.add_argument("--runs-dir", default="runs")
    options = parser.parse_args()

    changes = [f"total_timesteps={options.offline}", "eval_interval=null", f"runs_dir={options.runs_dir}"]
    offline = manager.start(read_config("iql/pendulum", changes))
    online = manager.finetune(offline.run.path, options.online, online={"prior": "buffer"})
    for name, result in (("offline", offline), ("online", online)):
        print(f"{name:<8} {result.run.path}: return {result.progress.last['return_mean']:.1f}")


if __name__ == "__main__":
    main()
