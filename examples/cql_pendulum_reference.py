"""CQL on Pendulum-v1 from the embedded dataset, start to finish in Python.

python examples/cql_pendulum_reference.py            # the packaged configuration, a minute or two
python examples/cql_pendulum_reference.py --updates 200 --episodes 2 --runs-dir /tmp/runs
"""

from __future__ import annotations

import argparse

import gymnasium

from rl_training import CQL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--updates", type=int, default=None, help="gradient updates (the configuration's, if not given)"
    )
    parser.add_argument("--episodes", type=int, default=20, help="episodes to score the policy on")
    parser.add_argument("--runs-dir", default="runs", help="folder for the run directory")
    options = parser.parse_args()

    model = CQL(config="cql/pendulum", runs_dir=options.runs_dir)
    model.learn(total_timesteps=options.updates, progress_bar=True)

    evaluation = model.evaluate(episodes=options.episodes, seed=20_000)
    print(f"return over {options.episodes} episodes: {evaluation.mean:.1f} ± {evaluation.std:.1f}")

    env = gymnasium.make("Pendulum-v1")
    obs, _ = env.reset(seed=0)
    action, _ = model.predict(obs)
    print(f"action for {obs.round(3).tolist()}: {action.tolist()}")

    restored = CQL.load(model.run_dir)
    assert restored.predict(obs)[0].tolist() == action.tolist()
    print(f"the same action from {model.run_dir}")


if __name__ == "__main__":
    main()
