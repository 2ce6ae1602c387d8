"""What d3rlpy, CORL, Stable-Baselines3 and CleanRL call an option, and where it stands in a configuration here."""

from __future__ import annotations

from collections.abc import Collection

_SEVERAL = "; several members are trained by a list of seeds: seed: [0, 1]"
_SEVERAL_SEEDS = ("members", "n_members", "num_members", "seeds", "n_seeds", "num_seeds", "random_seeds")
# Places here -> names elsewhere.
_ELSEWHERE: dict[tuple[str, ...], str] = {
    ("algo",): "algorithm agent method model",
    ("seed",): "random_seed rng_seed",
    ("env_id",): "env env_name environment gym_id gym_env task",
    ("dataset",): "data dataset_id dataset_name datasets d4rl_dataset minari_id data_file",
    ("dataset.path",): "dataset_path data_path dataset_file file path",
    ("total_timesteps",): (
        "n_steps num_steps max_steps max_timesteps train_steps training_steps n_train_steps num_train_steps steps"
        " total_steps gradient_steps n_gradient_steps n_updates num_updates updates iterations n_iterations timesteps"
        " num_timesteps update_steps"
    ),
    ("n_epochs",): "epochs num_epochs max_epochs",
    ("eval_interval",): (
        "eval_freq eval_frequency eval_every eval_period evaluation_interval evaluate_every n_steps_per_epoch"
        " test_interval eval_steps"
    ),
    ("evaluation.episodes",): (
        "n_episodes eval_episodes n_eval_episodes num_eval_episodes n_test_episodes eval_runs n_trials"
    ),
    ("log_interval",): "log_freq log_every log_frequency logging_interval logging_steps",
    ("checkpoint_interval",): "save_freq save_every save_interval checkpoint_freq checkpoint_every ckpt_interval",
    ("name",): "run_name exp_name experiment_name experiment group",
    ("runs_dir",): "logdir log_dir save_dir output_dir out_dir checkpoints_path checkpoint_dir root_dir",
    ("tracking",): "wandb use_wandb track tensorboard tensorboard_log logger logger_adapter project wandb_project",
    ("dataset.missing_words",): "missing_values na_values nan_values null_values missing_value na_value",
    ("init_from",): "load_model load_path pretrained checkpoint",
    ("device",): "use_gpu gpu cuda use_cuda accelerator",
    ("engine",): "compile torch_compile compile_graph jit cudagraphs",
    ("precision",): "amp dtype mixed_precision",
    ("threads",): "num_threads n_threads torch_threads num_workers",
    ("early_stopping.patience",): "patience",
    ("transforms.normalise_observations",): (
        "normalize normalise normalize_obs normalize_observations normalize_states normalize_state observation_scaler"
        " obs_norm normalize_observation"
    ),
    ("transforms.reward_range_scaling",): "normalize_reward normalize_rewards reward_scaler normalise_rewards",
    ("algo_kwargs.batch_size",): "batch bs minibatch_size mini_batch_size train_batch_size",
    ("algo_kwargs.gamma",): "discount discount_factor",
    ("algo_kwargs.tau",): "polyak soft_target_update_rate target_update_rate soft_update_rate target_update_tau",
    ("algo_kwargs.n_critics",): "num_critics num_qs n_qs n_q num_q num_q_networks critic_ensemble_size ensemble_size",
    ("algo_kwargs.actor_lr", "algo_kwargs.critic_lr", "algo_kwargs.value_lr"): "lr learning_rate lrate step_size",
    ("algo_kwargs.actor_lr",): "policy_lr actor_learning_rate policy_learning_rate pi_lr",
    ("algo_kwargs.critic_lr",): "qf_lr q_lr critic_learning_rate qf_learning_rate",
    ("algo_kwargs.value_lr",): "vf_lr v_lr value_learning_rate",
    ("algo_kwargs.actor_hidden", "algo_kwargs.critic_hidden", "algo_kwargs.value_hidden"): (
        "policy policy_kwargs network networks hidden_dim hidden_dims hidden_size hidden_sizes hidden_units net_arch"
        " n_hidden layers"
    ),
    ("algo_kwargs.expectile",): "iql_tau",
    ("algo_kwargs.policy_delay",): "policy_freq policy_frequency update_actor_interval actor_update_freq",
    ("algo_kwargs.policy_noise",): "target_policy_noise target_smoothing_sigma",
    ("algo_kwargs.noise_clip",): "target_noise_clip target_smoothing_clip",
    ("algo_kwargs.cql_alpha",): "conservative_weight min_q_weight cql_min_q_weight cql_weight",
    ("algo_kwargs.num_cql_samples",): "cql_n_actions n_cql_samples",
    ("algo_kwargs.max_weight",): "exp_adv_max max_exp_advantage",
    ("algo_kwargs.beta",): "inverse_temperature awac_lambda lam",
    ("algo_kwargs.actor_dropout",): "dropout dropout_rate actor_dropout_rate",
    ("algo_kwargs.layer_norm",): "layernorm use_layer_norm critic_ln critic_layernorm",
    ("algo_kwargs.buffer_capacity",): "buffer_size replay_size replay_buffer_size buffer_limit",
    ("algo_kwargs.train_frequency",): "train_freq update_interval update_every",
    ("algo_kwargs.gradient_updates_per_step",): "utd utd_ratio updates_per_step",
    ("algo_kwargs.learning_starts",): "start_steps start_timesteps random_steps warmup_steps",
}
FOREIGN = {name: places for places, names in _ELSEWHERE.items() for name in names.split()}


def places_of(name: str) -> tuple[str, ...]:
    """Where an option of this name stands here; none if no other program has it."""
    return FOREIGN.get(name.lower().replace("-", "_"), ())


def own_place(name: str) -> str | None:
    """Where an option of ours stands, by its last word: `algo_kwargs.gamma`."""
    return next((place for places in _ELSEWHERE for place in places if place.rpartition(".")[2] == name), None)


def foreign_hint(name: str, known: Collection[str]) -> str:
    """What to append to a complaint about an option that only other programs have, of those `known` at its place."""
    if name.lower() in _SEVERAL_SEEDS and {"seed", "total_timesteps"} <= set(known):
        return _SEVERAL
    places = places_of(name)
    here = [own for place in places if (own := place.rpartition(".")[2]) in known]
    meant = here or [place for place in places if place.partition(".")[0] in known]
    return f"; did you mean {' or '.join(map(repr, meant))}?" if meant else ""
