"""Settings with which a policy is trained that stays closer to the data than another one did."""

from __future__ import annotations

from rl_training.experiment.manager import LoadedPolicy

# By algorithm, what keeps its policies to the data, and the factor that keeps them closer.
_TIGHTER = {
    "iql": ("beta", 1 / 3),  # an inverse temperature
    "awac": ("beta", 3.0),  # temperatures
    "crr": ("beta", 3.0),
    "awr": ("beta", 3.0),
    "td3_bc": ("alpha", 0.4),  # the weight of the values
    "rebrac": ("actor_bc_weight", 3.0),
    "cql": ("cql_alpha", 2.0),
}


def tighter(policy: LoadedPolicy) -> str | None:
    """`algo_kwargs.beta=1`; none for an algorithm that has no such setting, or had it at 0."""
    key, factor = _TIGHTER.get(policy.checkpoint.config.algo, ("", 0.0))
    now = getattr(policy.actor.learner.params, key, None) if key else None
    return f"algo_kwargs.{key}={now * factor:.2g}" if now else None
