"""Configurations from files and from the command line: what is read, and what is said about what cannot be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from rl_training import algorithms
from rl_training.data.transforms import TransformConfig
from rl_training.errors import ConfigError
from rl_training.experiment.config import apply_override, find_config, packaged_configs, read_config, to_yaml
from rl_training.foreign_names import FOREIGN
from rl_training.runtime.config import EarlyStoppingConfig, EvaluationConfig, FileDatasetConfig, TrainConfig

SMALL = {"algo": "bc", "total_timesteps": 3}


def parse(**changes: Any) -> TrainConfig:
    return TrainConfig.parse({**SMALL, **changes})


def refusal(**changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(**changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes `c.yaml` in the current folder, given as text, bytes or values."""
    monkeypatch.chdir(tmp_path)

    def file(content: Any) -> str:
        text = content if isinstance(content, str | bytes) else yaml.safe_dump(content)
        Path("c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return "c.yaml"

    return file


def unreadable(name: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(name, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestFinding:
    def test_every_packaged_configuration(self) -> None:
        assert {"bc/pendulum", "cql/pendulum", "iql/pendulum", "td3_bc/pendulum"} <= set(packaged_configs())
        for name in packaged_configs():
            assert read_config(name).algo == name.split("/")[0]

    def test_a_path(self, write: Any, tmp_path: Path) -> None:
        name = write(SMALL)
        assert find_config(name) == Path("c.yaml")
        assert read_config(str(tmp_path / name)) == parse()

    def test_a_file_without_suffix(self, write: Any) -> None:
        shutil.copy(write(SMALL), "plain")
        assert read_config("plain") == parse()

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("cql/pendulm", "config: no packaged configuration 'cql/pendulm'; did you mean 'cql/pendulum'?"),
            ("cql/pendulum.yaml", "config: no file cql/pendulum.yaml; did you mean 'cql/pendulum'?"),
            ("cql", "config: no packaged configuration 'cql'; did you mean 'cql/pendulum'?"),
            ("CQL/Pendulum", "config: no packaged configuration 'CQL/Pendulum'; did you mean 'cql/pendulum'?"),
            ("configs/iql/pendulum.yml", "config: no file configs/iql/pendulum.yml; did you mean 'iql/pendulum'?"),
        ],
    )
    def test_a_misspelt_name(self, name: str, message: str, write: Any) -> None:
        assert unreadable(name) == message

    def test_what_is_no_file(self, write: Any) -> None:
        os.mkfifo("pipe.yaml")
        Path("folder.yaml").mkdir()
        assert unreadable("pipe.yaml") == "config: pipe.yaml is no plain file; name a YAML file"
        assert unreadable("folder.yaml") == "config: folder.yaml is a folder; name a YAML file"
        assert unreadable("/dev/zero") == "config: /dev/zero is no plain file; name a YAML file"

    def test_nothing_like_it_lists_what_there_is(self, write: Any) -> None:
        assert f"; choose from {', '.join(packaged_configs())}" in unreadable("zzz")

    @pytest.mark.parametrize("name", ["~nobody-of-this-name/c.yaml", "x" * 300 + ".yaml", "x" * 300])
    def test_names_the_file_system_refuses(self, name: str) -> None:
        assert unreadable(name).startswith("config: ")


class TestReading:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("algo: [bc\nseed: 3\n", "c.yaml: is not valid YAML at line 2 (expected ',' or ']', but got ':')"),
            ("algo: bc\n\tseed: 3\n", "c.yaml: is not valid YAML at line 2 (found character '\\t' that cannot"),
            ("algo: bc: 3\n", "c.yaml: is not valid YAML at line 1 (mapping values are not allowed here)"),
            ("a: 1\n---\nb: 2\n", "c.yaml: is not valid YAML at line 2 (but found another document)"),
            ("!!python/object/apply:os.getcwd []\n", "c.yaml: is not valid YAML at line 1 (could not determine"),
            ("name: 2024-13-45\n", "c.yaml: is not valid YAML (month must be in 1..12)"),
            ("[" * 5000, "c.yaml: is not valid YAML (nested more than 50 deep)"),
            ("- algo\n", "c.yaml: must be a mapping of options, is list"),
            ("42\n", "c.yaml: must be a mapping of options, is int"),
            ("", "c.yaml: must be a mapping of options"),
            (b"\x89PNG\xff\xfe", "c.yaml: is not UTF-8 text (byte 0x89"),
            ("name: ä\n".encode("cp1252"), "c.yaml: is not UTF-8 text (byte 0xe4, which Windows writes for 'ä'); save"),
            ("algo: bc\n".encode("utf-16"), "c.yaml: is UTF-16 text; save it as UTF-8"),
        ],
    )
    def test_what_is_no_configuration(self, text: Any, message: str, write: Any) -> None:
        assert unreadable(write(text)).startswith(message)

    def test_control_characters(self, write: Any) -> None:
        assert unreadable(write(b"algo: bc\x00\n")).startswith("c.yaml: is not valid YAML")

    def test_a_file_that_may_not_be_read(self, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> str:
            raise PermissionError(13, "Permission denied")

        name = write(SMALL)
        monkeypatch.setattr(Path, "open", refuse)
        assert unreadable(name) == "c.yaml: cannot be read (Permission denied)"

    @pytest.mark.parametrize("number", ["0310", "-0310", "3:20", "3:20.5", "0_310"])
    def test_numbers_that_yaml_reads_otherwise(self, number: str, write: Any) -> None:
        told = unreadable(write(f"algo: bc\ntotal_timesteps: {number}\n"))
        assert told.startswith(f"c.yaml: is not valid YAML at line 2 ({number} may mean several numbers; write it")
        assert f"--set seed={number}: " in unreadable("cql/pendulum", f"seed={number}")

    @pytest.mark.parametrize(("text", "number"), [("00", 0), ("07", 7), ("0x1F", 31), ("1_000", 1000), ("'3'", 3)])
    def test_numbers_that_are_what_they_look_like(self, text: str, number: int) -> None:
        assert read_config("cql/pendulum", [f"evaluation.seed={text}"]).evaluation.seed == number

    def test_a_key_given_twice(self, write: Any) -> None:
        twice = unreadable(write("algo: bc\ntotal_timesteps: 3\nseed: 1\nseed: 2\n"))
        assert twice == "c.yaml: is not valid YAML at line 4 (seed is given twice)"
        assert "at line 2 (x is given twice)" in unreadable(write("algo_kwargs: {x: 1,\n 'x': 2}\n"))

    def test_a_merged_key_may_be_given_again(self, write: Any) -> None:
        text = "algo: bc\ntotal_timesteps: 3\nevaluation: {<<: {episodes: 5, seed: 4}, episodes: 6}\n"
        evaluation = read_config(write(text)).evaluation
        assert (evaluation.episodes, evaluation.seed) == (6, 4)

    def test_scientific_notation_is_a_number(self, write: Any) -> None:
        name = write("algo: bc\ntotal_timesteps: 3\nalgo_kwargs:\n  actor_lr: 3e-4\n")
        assert read_config(name).algo_kwargs["actor_lr"] == 3e-4

    def test_scientific_notation_for_whole_numbers(self, write: Any) -> None:
        assert read_config(write("algo: bc\ntotal_timesteps: 1e3\n")).total_timesteps == 1000

    @pytest.mark.parametrize("name", ["2024", "1e5", "1E-5", "true", "null", "2024-01-01"])
    def test_names_that_look_like_something_else_come_back(self, name: str, write: Any) -> None:
        config = parse(name=name)
        assert read_config(write(to_yaml(config))) == config
        assert read_config(write(f"algo: bc\ntotal_timesteps: 3\nname: '{name}'\n")).name == name

    def test_a_parameter_of_the_algorithm_beside_its_section(self, write: Any) -> None:
        hint = "c.yaml: batch_size: no such option; did you mean 'algo_kwargs.batch_size'?"
        assert unreadable(write({**SMALL, "batch_size": 8})) == hint
        assert unreadable(write(SMALL), "batch_size=8") == hint.replace("c.yaml", "--set")

    @pytest.mark.parametrize(
        ("override", "told"),
        [
            ("algo_kwargs=", "algo_kwargs: is empty; leave it out, or indent its options below it"),
            (
                "evaluation=5",
                "evaluation: must be options by name, such as {deterministic: …, episodes: …, ",
            ),
            ("dataset=5", "dataset: must be options by name, such as {"),
            ("algo_kwargs.actor_hidden=256", "algo_kwargs.actor_hidden: must be a list, got 256; write [256]"),
            ("algo_kwargs.actor_hidden=64,32", "algo_kwargs.actor_hidden: must be a list, got '64,32'; write [64, "),
            (
                "algo_kwargs.actor_hidden=(64, 32)",
                "algo_kwargs.actor_hidden: must be a list, got '(64, 32)'; ",
            ),
            ("algo_kwargs.actor_hidden=wide", "algo_kwargs.actor_hidden: must be a list, got 'wide'"),
            (
                "algo_kwargs={gamma: 0,99}",
                "algo_kwargs.99: must be the name of an option, got 99; decimals are ",
            ),
            ("seed=-1", "seed: must be at least 0 and below 2^31, got -1"),
            ("name=5", "name: must be text, got 5; put it in quotes"),
            ("name=2024-01-01", "name: must be text, got 2024-01-01; put it in quotes"),
            (
                "dataset={source: file, path: 2024-01-01}",
                "dataset.path: must be text, got 2024-01-01; put it in quotes",
            ),
            ("dataset={source: file, path: }", "dataset.path: must be the path of a file or folder, but is empty"),
            (
                "dataset={source: file, path: [a, b]}",
                "dataset.path: must be the path of a file or folder, got ['a', 'b']",
            ),
            (
                "dataset={source: file, path: a.csv, columns: {obs: x, y, z, actions: u}}",
                "dataset.columns: y: names no column; if it is one of obs, several are a list: obs: [x, y, z]",
            ),
            (
                "dataset={source: file, path: a.csv, columns: {obs: , actions: u}}",
                "dataset.columns: obs: is empty; name the column, or columns, that hold it, or leave it out",
            ),
            (
                "dataset={source: file, path: a.csv, columns: {y, actions: u}}",
                "dataset.columns: y: names no column, and is no field; fields are obs, actions, ",
            ),
            (
                "name=no",
                "name: must not be false; yes, no, on, off, true and false stand in quotes where ",
            ),
            ("runs_dir=''", "runs_dir: must not be empty"),
        ],
    )
    def test_other_kinds_than_are_asked_for(self, override: str, told: str) -> None:
        assert unreadable("cql/pendulum", override).startswith(f"--set: {told}")

    @pytest.mark.parametrize("name", ["members", "seeds", "n_seeds"])
    def test_several_members_are_a_list_of_seeds(self, name: str, write: Any) -> None:
        said = f"{name}: no such option; several members are trained by a list of seeds: seed: [0, 1]"
        assert unreadable(write({**SMALL, name: [0, 1]})) == f"c.yaml: {said}"
        assert unreadable(write(SMALL), f"{name}=4") == f"--set: {said}"

    @pytest.mark.parametrize(
        ("name", "places"),
        [
            ("n_steps", "total_timesteps"), ("max_timesteps", "total_timesteps"), ("dataset_path", "dataset.path"),
            ("env", "env_id"), ("eval_freq", "eval_interval"), ("n_eval_episodes", "evaluation.episodes"),
            ("batch", "algo_kwargs.batch_size"), ("discount", "algo_kwargs.gamma"), ("tau", "algo_kwargs.tau"),
            ("n_critics", "algo_kwargs.n_critics"), ("iql_tau", "algo_kwargs.expectile"), ("epochs", "n_epochs"),
            ("learning_rate", "algo_kwargs.actor_lr' or 'algo_kwargs.critic_lr' or 'algo_kwargs.value_lr"),
            ("policy", "algo_kwargs.actor_hidden' or 'algo_kwargs.critic_hidden' or 'algo_kwargs.value_hidden"),
            ("normalize", "transforms.normalise_observations"), ("use_gpu", "device"), ("exp_name", "name"),
        ],
    )  # fmt: skip
    def test_names_of_other_programs(self, name: str, places: str, write: Any) -> None:
        values = {**SMALL, "algo": "iql", "algo_kwargs": {}, name: 1}
        assert unreadable(write(values)) == f"c.yaml: {name}: no such option; did you mean '{places}'?"

    def test_what_the_algorithm_does_not_have(self, write: Any) -> None:
        said = "c.yaml: discount: no such option; bc has no gamma (rl-training algos bc)"
        assert unreadable(write({**SMALL, "algo": "bc", "discount": 0.9})) == said

    def test_names_of_other_programs_stand_for_options_that_exist(self) -> None:
        options = set(TrainConfig.model_fields)
        parameters = {name for algo in algorithms.find() for name in algorithms.load(algo).Params.model_fields}
        assert not set(FOREIGN) & (options | parameters)
        for place in {place for places in FOREIGN.values() for place in places}:
            section, _, name = place.partition(".")
            inner: dict[str, Any] = {
                "evaluation": EvaluationConfig,
                "transforms": TransformConfig,
                "dataset": FileDatasetConfig,
            }
            inner |= {"early_stopping": EarlyStoppingConfig}
            known = parameters if section == "algo_kwargs" else inner[section].model_fields if name else options
            assert (name or section) in known, place

    def test_a_fault_names_file_and_key(self, write: Any) -> None:
        further_in = "c.yaml: deterministic: no such option; did you mean evaluation.deterministic?"
        assert unreadable(write({**SMALL, "deterministic": True})) == further_in
        assert unreadable(write({**SMALL, "log_interval": 0})) == "c.yaml: log_interval: must be at least 1, got 0"

    @pytest.mark.parametrize("name", ["cql/pendulum", "td3_bc/pendulum"])
    def test_round_trip(self, name: str, write: Any) -> None:
        settings = ["seed=[3, 1]", "algo_kwargs.actor_lr=1e-5", "early_stopping.target=-150", "env_id=null"]
        settings += ["algo_kwargs.lr_schedule.actor.kind=cosine", "dataset=dätä.npz"]
        config = read_config(name, settings)
        assert config.seeds == (3, 1)
        assert read_config(write(to_yaml(config))) == config


class TestOverrides:
    @pytest.mark.parametrize(
        ("override", "expected"),
        [
            ("a=3", {"a": 3}),
            ("a=0.5", {"a": 0.5}),
            ("a=3e-4", {"a": 3e-4}),
            ("a=true", {"a": True}),
            ("a=null", {"a": None}),
            ("a=", {"a": None}),
            ("a=text", {"a": "text"}),
            ("a=[1, 2]", {"a": [1, 2]}),
            ("a=x=y", {"a": "x=y"}),
            (" a =3", {"a": 3}),
            ("b.c=4", {"b": {"c": 4, "kept": 1}}),
            ("new.deep.er=5", {"new": {"deep": {"er": 5}}}),
            ("none.x=1", {"none": {"x": 1}}),
        ],
    )
    def test_values_are_yaml(self, override: str, expected: dict[str, Any]) -> None:
        values: dict[str, Any] = {"b": {"c": 3, "kept": 1}, "none": None}
        apply_override(values, override)
        assert {name: values[name] for name in expected} == expected
        assert isinstance(values[next(iter(expected))], type(next(iter(expected.values()))))

    def test_quotes_keep_text(self) -> None:
        values: dict[str, Any] = {}
        apply_override(values, "name='2024'")
        apply_override(values, 'env_id="1e5"')
        assert values == {"name": "2024", "env_id": "1e5"}

    def test_values_that_are_taken_literally(self, write: Any) -> None:
        config = read_config(write(SMALL), ["name=other", "seed=2"], {"name": "1e5", "seed": [3]})
        assert (config.name, config.seeds) == ("1e5", (3,))

    def test_the_original_section_is_not_written_to(self) -> None:
        inner = {"c": 3}
        apply_override({"b": inner}, "b.c=4")
        assert inner == {"c": 3}

    @pytest.mark.parametrize("override", ["seed", "seed 3", ""])
    def test_not_key_and_value(self, override: str) -> None:
        with pytest.raises(ConfigError) as caught:
            apply_override({}, override)
        assert str(caught.value) == (
            f"--set {override}: must have the form key=value, such as algo_kwargs.batch_size=128"
        )

    @pytest.mark.parametrize(
        ("override", "what"),
        [
            ("=1", "there is no name before ="),
            (" =3", "there is no name before ="),
            (".=1", "the name '.' has an empty part"),
            ("a..b=1", "the name 'a..b' has an empty part"),
            ("evaluation. .episodes=1", "the name 'evaluation. .episodes' has an empty part"),
            (".seed=1", "the name '.seed' has an empty part"),
            ("seed.=1", "the name 'seed.' has an empty part"),
        ],
    )
    def test_an_empty_name(self, override: str, what: str) -> None:
        values: dict[str, Any] = {}
        with pytest.raises(ConfigError) as caught:
            apply_override(values, override)
        form = "the form is key=value, such as algo_kwargs.batch_size=128"
        assert str(caught.value) == f"--set {override}: {what}; {form}"
        assert values == {}

    def test_a_value_that_is_no_yaml(self) -> None:
        with pytest.raises(ConfigError, match=r"--set seed=\[0,: '\[0,' is not a valid YAML value"):
            apply_override({}, "seed=[0,")

    @pytest.mark.parametrize("text", ["2024-99-99", "[" * 5000])
    def test_a_value_that_yaml_chokes_on(self, text: str) -> None:
        with pytest.raises(ConfigError, match="--set name="):
            apply_override({}, f"name={text}")
        with pytest.raises(ConfigError) as caught:
            apply_override({}, f"name={text}")
        assert len(str(caught.value)) < 300

    def test_inside_something_that_has_no_inside(self) -> None:
        with pytest.raises(ConfigError, match=r"--set seed.x=1: seed is 3, it has no options inside"):
            apply_override({"seed": 3}, "seed.x=1")

    def test_later_ones_win_and_the_key_is_checked(self, write: Any) -> None:
        name = write(SMALL)
        assert read_config(name, ["seed=1", "seed=2"]).seed == 2
        assert unreadable(name, "evaluaton.episodes=3") == (
            "c.yaml: evaluaton: no such option; did you mean 'evaluation'?"
        )


class TestChecks:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"eval_intervall": 3}, "eval_intervall: no such option; did you mean 'eval_interval'?"),
            ({"eval_interval": 0}, "eval_interval: must be at least 1, got 0; null evaluates at the end"),
            ({"evaluation": {"episods": 3}}, "evaluation.episods: no such option; did you mean 'episodes'?"),
            (
                {"transforms": {"reward_scal": 2}},
                "transforms.reward_scal: no such option; did you mean 'reward_scale'?",
            ),
            (
                {"algo_kwargs": {"actor_hiden": [8]}},
                "algo_kwargs.actor_hiden: no such option; did you mean 'actor_hidden'?",
            ),
            (
                {"algo_kwargs": {"lr_schedule": {"actor": {"kin": "linear"}}}},
                "algo_kwargs.lr_schedule.actor.kin: no such option; did you mean 'kind'?",
            ),
            (
                {"algo_kwargs": {"lr_schedule": {"actor": {"kind": "linaer"}}}},
                "algo_kwargs.lr_schedule.actor.kind: must be 'constant', 'linear' or 'cosine', got 'linaer'"
                "; did you mean 'linear'?",
            ),
            ({"algo": "cqll"}, "algo: no algorithm 'cqll'; did you mean 'cql'?"),
            ({"algo": "d3rlpy.algos.IQL"}, "algo: no algorithm 'd3rlpy.algos.IQL'; did you mean 'iql'?"),
            (
                {"engine": "compild"},
                "engine: must be 'auto', 'eager' or 'compiled', got 'compild'; did you mean 'compiled'?",
            ),
            ({"device": "gpu"}, "device: must be auto, cpu, cuda or cuda:N, got 'gpu'"),
            ({"seed": [0, 1, 0]}, "seed: must be one or more distinct seeds"),
            ({"seed": []}, "seed: must be one or more distinct seeds"),
            ({"early_stopping": {"min_delta": 1}}, "early_stopping: needs patience, target or both"),
            ({"total_timesteps": None}, "total_timesteps (or n_epochs) is required"),
            ({"algo_kwargs": {"actor_lr": 5}}, "algo_kwargs.actor_lr: must be above 0 and at most 1, got 5"),
            ({"evaluation": {"episodes": 0}}, "evaluation.episodes: must be at least 1, got 0"),
            ({"threads": -1}, "threads: must be at least 1 and at most 1024, got -1"),
            ({"threads": 2000}, "threads: must be at least 1 and at most 1024, got 2000"),
        ],
    )
    def test_messages(self, changes: dict[str, Any], message: str) -> None:
        assert refusal(**changes) == message

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("seed", -1),
            ("seed", 2**31),
            ("seed", "abc"),
            ("total_timesteps", 0),
            ("total_timesteps", 1.5),
            ("n_epochs", -2),
            ("log_interval", "many"),
            ("evaluation", 3),
            ("algo_kwargs", [1]),
            ("name", "a/b"),
            ("name", ".."),
            ("name", ""),
            ("runs_dir", ""),
            ("device", "cuda:x"),
            ("threads", 0),
            ("env_id", 3),
        ],
    )
    def test_a_wrong_value_is_named_and_shown(self, key: str, value: Any) -> None:
        message = refusal(**{key: value})
        assert message.startswith(f"{key}: ")
        assert repr(value) in message

    def test_infinities_are_no_numbers(self) -> None:
        assert "finite" in refusal(early_stopping={"target": float("inf")})
        assert "finite" in refusal(algo_kwargs={"actor_lr": float("nan")})

    def test_an_unknown_source_of_data(self) -> None:
        message = refusal(dataset={"source": "scriptd"})
        assert message.startswith("dataset")
        assert "'scriptd'" in message
        assert "'scripted', 'random', 'file'" in message

    @pytest.mark.parametrize(
        ("source", "path"), [("csv", "FILE.csv"), ("dryer log.csv", "dryer log.csv"), ("Parquet", "FILE.parquet")]
    )
    def test_a_file_as_the_source(self, source: str, path: str) -> None:
        said = f"no 'source' {source!r}; a file is source: file, with path: {path}"
        assert said in refusal(dataset={"source": source})

    def test_bounds_in_round_brackets(self) -> None:
        section = {"source": "file", "path": "log.csv", "action_high": 3}
        said = refusal(dataset={**section, "action_low": "(0, 10)"})
        assert "dataset.action_low: must be a number, got '(0, 10)'; write [0, 10]" in said
        assert refusal(algo_kwargs={"actor_lr": "(0, 1)"}).endswith("must be a number, got '(0, 1)'")

    def test_a_missing_source_of_data(self) -> None:
        assert refusal(dataset={"size": 5}) == "dataset: needs 'source', as in source: file"

    def test_a_misspelt_required_key(self) -> None:
        assert refusal(dataset={"source": "file", "pth": "x.npz"}).startswith(
            "dataset.pth: no such option; did you mean 'path'?"
        )

    @pytest.mark.parametrize("key", ["total_timesteps", "seed", "log_interval"])
    def test_a_switch_is_no_number(self, key: str) -> None:
        assert refusal(**{key: True}).startswith(f"{key}: ")

    def test_one_wording_of_ranges(self) -> None:
        assert refusal(total_timesteps=0) == "total_timesteps: must be at least 1, got 0"


class TestValues:
    def test_a_dataset_by_its_path_alone(self) -> None:
        assert parse(dataset="log.npz") == parse(dataset={"source": "file", "path": "log.npz"})

    def test_a_dataset_by_its_path_as_an_object(self) -> None:
        assert parse(dataset=Path("log.npz")) == parse(dataset="log.npz")

    def test_defaults_are_filled_in_everywhere(self) -> None:
        plain = parse().to_plain()
        assert plain["evaluation"]["episodes"] == 10
        assert plain["algo_kwargs"]["batch_size"] == 256
        assert TrainConfig.parse(plain) == parse()

    def test_one_seed_or_several(self) -> None:
        assert parse(seed=7).seeds == (7,)
        assert parse(seed=[7, 8]).seeds == (7, 8)

    def test_a_value_that_grows_when_it_is_printed(self, write: Any) -> None:
        """Six lines of YAML that stand for a million words; ten would stand for more than any memory holds."""
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 6)]
        name = write("\n".join(["algo: bc", "total_timesteps: 3", *lines, "evaluation: *a5", ""]))
        values = yaml.safe_load(Path(name).read_text())
        assert _peak_memory(lambda: refusal(evaluation=values["evaluation"])) < 1_000_000

    @pytest.mark.parametrize("changes", [{"seed": 16**6000}, {"name": "x" * 10_000}, {"y" * 10_000: 1}])
    def test_long_values_and_keys_are_shortened(self, changes: dict[str, Any]) -> None:
        assert len(refusal(**changes)) < 300


def _peak_memory(action: Any) -> int:
    """Bytes allocated by Python at the height of `action`."""
    import tracemalloc

    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("written", ["10.000", "500.0"])
def test_thousands_with_a_point_are_no_ten(written: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"algo: iql\ndataset: log.csv\ntotal_timesteps: {written}\n")
    with pytest.raises(ConfigError, match=rf"total_timesteps: must be a whole number, got {float(written)}; write"):
        read_config(str(tmp_path / "a.yaml"))


@pytest.mark.parametrize("written", ["1e4", "10000.0", "10_000"])
def test_other_ways_to_write_ten_thousand(written: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"algo: iql\ndataset: log.csv\ntotal_timesteps: {written}\n")
    assert read_config(str(tmp_path / "a.yaml")).total_timesteps == 10_000


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (100, 0, "action_low 100 must be below action_high 0"),
        ([0, 3], [1, 2], "action_low 3 must be below action_high 2 in column 1"),
        ([0, 0], [1, 1, 1], "action_low has 2 numbers and action_high 3; give one for each action$"),
        (
            [100, 0, 100, 0],
            [1, 1],
            r"action_low has 4 numbers and action_high 2; .* each action, decimals with a point \(0.5, not 0,5\)",
        ),
    ],
)
def test_bounds_the_wrong_way_round_need_no_data_to_be_refused(low: Any, high: Any, message: str) -> None:
    dataset = {"source": "file", "path": "log.csv", "action_low": low, "action_high": high}
    with pytest.raises(ConfigError, match=message):
        TrainConfig.parse({"algo": "iql", "dataset": dataset, "total_timesteps": 10})
