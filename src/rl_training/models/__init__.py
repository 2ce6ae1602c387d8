"""The networks: stacked layers, policy heads, critic ensembles and the three model families."""

from rl_training.models.families import MLPIQLModel, MLPSACModel, MLPTD3Model
from rl_training.models.initialisers import Initialiser
from rl_training.models.layers import LayerNormPlacement, MLPSpec, StackedMLP, dropout_masks, polyak
from rl_training.models.policies import DeterministicPolicy, Gaussian, GaussianPolicy, Policy, TanhGaussianPolicy
from rl_training.models.values import Critics, Reduction, StateValue, random_subset, reduce_critics

__all__ = [
    "Critics",
    "DeterministicPolicy",
    "Gaussian",
    "GaussianPolicy",
    "Initialiser",
    "LayerNormPlacement",
    "MLPIQLModel",
    "MLPSACModel",
    "MLPSpec",
    "MLPTD3Model",
    "Policy",
    "Reduction",
    "StackedMLP",
    "StateValue",
    "TanhGaussianPolicy",
    "dropout_masks",
    "polyak",
    "random_subset",
    "reduce_critics",
]
