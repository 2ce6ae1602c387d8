"""Any algorithm on Pendulum-v1 with its packaged configuration, several seeds at once.

python examples/pendulum.py iql --seeds 0 1 2
python examples/pendulum.py rlpd --steps 1000
"""

from __future__ import annotations

import argparse

import rl_training
from rl_training import algorithms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algo", choices=sorted(algorithms.find()))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=None, help="updates, or environment steps for an online algorithm")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--runs-dir", default="runs")
    options = parser.parse_args()

    managed = getattr(rl_training, algorithms.load(options.algo).__name__)
    model = managed(config=f"{options.algo}/pendulum", seed=options.seeds, runs_dir=options.runs_dir)
    model.learn(total_timesteps=options.steps, progress_bar=True)
    evaluation = model.evaluate(episodes=options.episodes, seed=20_000)
    for seed in options.seeds:
        returns = evaluation.of_seed(seed)
        print(f"seed {seed}: {returns.mean():.1f} ± {returns.std():.1f} over {options.episodes} episodes")


if __name__ == "__main__":
    main()
