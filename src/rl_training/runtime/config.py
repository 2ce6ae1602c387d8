"""`TrainConfig`: everything one run is made of. It is plain data; `config.yaml` in a run directory is one, complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from rl_training import algorithms
from rl_training.algorithms.base.params import PriorDataParams
from rl_training.data.dataset_loaders import DatasetConfig, FileDatasetConfig, path_alone
from rl_training.data.transforms import TransformConfig
from rl_training.errors import ConfigError
from rl_training.paths import user_path
from rl_training.run_places import RUNS_DIR
from rl_training.runtime.presets import merge, preset_values
from rl_training.tracker_names import TrackerName
from rl_training.validation import Section, explain, shown


def _no_thousands(value: Any) -> Any:
    """Refuse 10.000, which YAML reads as ten."""
    if isinstance(value, float) and value.is_integer() and 0 < value < 1_000:
        raise ValueError(
            f"must be a whole number, got {value!r}; write {value:.0f}, or {value * 1_000:.0f} for thousands"
        )
    return value


Count = Annotated[int, Field(ge=1), BeforeValidator(_no_thousands)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class EvaluationConfig(Section):
    """How a policy is scored in its environment. Returns are sums of the raw, undiscounted reward."""

    episodes: Count = Field(10, description="episodes per seed and evaluation")
    seed: Seed = Field(10_000, description="episode e resets with this seed plus e, in every evaluation")
    deterministic: bool = Field(True, description="act with the policy's mode; false samples from it")
    max_envs: Count = Field(64, description="environments stepping at once")
    max_steps: Count = Field(100_000, description="steps after which an episode that does not end is cut")


class EarlyStoppingConfig(Section):
    """When to stop before the budget is spent, judged on the mean over seeds after every record of the metric."""

    metric: str = Field("return_mean", description="a field of evaluations, or a training metric such as critic/loss")
    mode: Literal["max", "min"] | None = Field(None, description="what is better; none: min for a loss, else max")
    patience: Count | None = Field(None, description="records without improvement before stopping")
    min_delta: float = Field(0.0, ge=0.0, description="smallest change that counts as an improvement")
    target: float | None = Field(None, description="stop as soon as the metric is at least this good")

    @model_validator(mode="after")
    def _does_something(self) -> EarlyStoppingConfig:
        if self.patience is None and self.target is None:
            raise ValueError("needs patience, target or both")
        return self


class DivergenceConfig(Section):
    """When a seed counts as diverged. What is not finite always stops it; the other seeds go on."""

    absurd_q: Literal["warn", "stop", "off"] = Field(
        "warn", description="what follows from Q-values that the rewards cannot explain: a warning, or the seed's end"
    )
    q_factor: float = Field(10.0, ge=1.0, description="how many times max|reward| / (1 - gamma) a Q-value may be")


class OnlineConfig(PriorDataParams):
    """How an offline algorithm goes on online (`rl-training finetune`)."""

    prior: Literal["mixed", "buffer"] = Field(
        "mixed",
        description="prior data in a share of every batch, or as the first contents of the replay buffer (a mixture by"
        " its weights)",
    )
    learning_starts: int = Field(0, ge=0, description="steps of uniformly random actions before the first update")

    @model_validator(mode="after")
    def _has_something_to_pretrain_on(self) -> OnlineConfig:
        if self.prior == "buffer" and self.offline_pretrain_updates:
            raise ValueError("offline_pretrain_updates needs prior: mixed; in the buffer prior data are not kept apart")
        return self


class TrackerConfig(Section):
    """A program that is told how the run goes; its own environment variables say the rest."""

    tracker: TrackerName = Field(description="which")
    project: str | None = Field(
        None,
        min_length=1,
        description="project (MLflow: experiment); none: the tracker's own variable, or rl-training",
    )


class TrainConfig(Section):
    """One run."""

    algo: str = Field(description="algorithm, as listed by `rl-training algos`")
    preset: str | None = Field(None, description="named settings of the algorithm, beneath what is given here")
    env_id: str | None = Field(None, description="Gymnasium environment to evaluate in; none trains from data alone")
    dataset: DatasetConfig | None = Field(None, description="where the transitions come from")
    seed: Seed | tuple[Seed, ...] = Field(0, description="one seed, or a list: that many members trained together")
    total_timesteps: Count | None = Field(None, description="gradient updates offline, environment steps online")
    n_epochs: Count | None = Field(None, description="passes over the dataset; the smaller budget ends the run")
    algo_kwargs: dict[str, Any] = Field(default_factory=dict, description="the algorithm's own parameters")
    online: OnlineConfig | None = Field(None, description="collect experience of its own; none trains offline")
    init_from: str | None = Field(None, description="run or checkpoint whose networks and transforms to start from")
    initial_values: Literal["zero", "data"] = Field(
        "zero",
        description="where critics begin: around zero, as in the papers, or at what the data's rows return on average,"
        " which spares far values the way there",
    )
    transforms: TransformConfig = Field(default_factory=TransformConfig, description="observation and reward maps")
    eval_interval: Count | None = Field(None, description="steps between evaluations; none evaluates at the end")
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig, description="how to evaluate")
    early_stopping: EarlyStoppingConfig | None = Field(None, description="when to stop early")
    divergence: DivergenceConfig = Field(default_factory=DivergenceConfig, description="when a seed has diverged")
    log_interval: Count = Field(100, description="steps between metric records (each is the mean over them)")
    checkpoint_interval: Count | None = Field(
        None, description="steps between checkpoints; none is every evaluation, or ten times a run"
    )
    tracking: tuple[TrackerConfig, ...] = Field(
        (), description="tensorboard, wandb, mlflow, trackio: a name, a list of names, or sections"
    )
    keep_checkpoints: Count = Field(2, description="newest checkpoints kept, besides the best one")
    keep_every: Count | None = Field(None, description="checkpoints at multiples of so many steps are kept for good")
    engine: Literal["auto", "eager", "compiled"] = Field("auto", description="how updates are run")
    precision: Literal["auto", "fp32", "tf32", "bf16"] = Field(
        "auto", description="matrix products: fp32, tf32 (CUDA only, and what auto means there) or bf16"
    )
    kernels: Literal["auto", "plain", "fused"] = Field(
        "auto",
        description="plain: torch's; fused: Triton's, of networks with 2 to 4 hidden layers of 64, 128 or 256 units;"
        " auto: fused on a CUDA device with Triton, else plain, but large float32 batches on a CPU in blocks that fit"
        " its cache where nothing is compiled",
    )
    device: str = Field("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="auto, cpu, cuda or cuda:N")
    data_memory: Literal["auto", "ram", "mapped"] = Field(
        "auto", description="a column directory in memory, or read from disk as needed; auto: disk if it is too large"
    )
    threads: Count | None = Field(
        None, le=1_024, description="CPU threads for tensor operations; none keeps torch's choice"
    )
    runs_dir: str = Field(RUNS_DIR, min_length=1, description="folder in which run directories are made")
    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        description="a folder name of at most 100 letters, digits, '.', '_' and '-' for the run; none makes one up",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: Any) -> Any:
        """What a preset says counts where the configuration itself says nothing."""
        if (
            isinstance(values, Mapping)
            and isinstance(values.get("preset"), str)
            and isinstance(values.get("algo"), str)
        ):
            return merge(preset_values(values["algo"], values["preset"]), values)
        return values

    @field_validator("dataset", mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        return path_alone(value)

    @field_validator("tracking", mode="before")
    @classmethod
    def _names_alone(cls, value: Any) -> Any:
        """`wandb` is `[{tracker: wandb}]`."""
        entries = value if isinstance(value, list | tuple) else () if value is None else (value,)
        return tuple({"tracker": entry} if isinstance(entry, str) else entry for entry in entries)

    @field_validator("tracking", mode="after")
    @classmethod
    def _each_once(cls, value: tuple[TrackerConfig, ...]) -> tuple[TrackerConfig, ...]:
        if len({entry.tracker for entry in value}) != len(value):
            raise ValueError("must name each tracker once")
        return value

    @field_validator("runs_dir", "device", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        """A `Path` or a `torch.device` is as good as its text."""
        return value if value is None or isinstance(value, bool | int | float | list | dict) else str(value)

    @field_validator("runs_dir", mode="after")
    @classmethod
    def _can_be_a_place(cls, value: str) -> str:
        user_path(value)
        if any(ord(letter) < ord(" ") for letter in value):
            raise ValueError(f"must not contain control characters, got {shown(value)}")
        return value

    @field_validator("seed", mode="after")
    @classmethod
    def _distinct(cls, value: int | tuple[int, ...]) -> int | tuple[int, ...]:
        if isinstance(value, tuple) and (not value or len(set(value)) != len(value)):
            raise ValueError("must be one or more distinct seeds")
        return value

    @model_validator(mode="after")
    def _has_budget(self) -> TrainConfig:
        if self.total_timesteps is None and self.n_epochs is None:
            raise ValueError("total_timesteps (or n_epochs) is required")
        return self

    @model_validator(mode="after")
    def _complete_algorithm(self) -> TrainConfig:
        """The algorithm's own defaults filled in: a configuration is always complete."""
        params = algorithms.load(self.algo).parse(self.algo_kwargs)
        object.__setattr__(self, "algo_kwargs", params.model_dump(mode="json"))
        return self

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> TrainConfig:
        """A complete configuration from plain values; a mistake is one line."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigError(explain(error, cls)) from None

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.seed if isinstance(self.seed, tuple) else (self.seed,)

    def to_plain(self) -> dict[str, Any]:
        """JSON-like values, in field order."""
        return self.model_dump(mode="json")


__all__ = [
    "DatasetConfig",
    "EarlyStoppingConfig",
    "EvaluationConfig",
    "FileDatasetConfig",
    "TrackerConfig",
    "TrainConfig",
]
