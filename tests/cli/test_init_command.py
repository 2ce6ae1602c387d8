"""`rl-training init`: files of many shapes become configurations that train, or say in one line what they lack."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml

from rl_training.cli.recommendation import recommend
from rl_training.data.guessing import guess_fields
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.experiment.config import read_config
from rl_training.wording import readable

SHORT = ("--set", "total_timesteps=3", "--set", "algo_kwargs={batch_size: 8}", "--quiet")


@pytest.fixture
def rows(dataset: TransitionDataset) -> dict[str, np.ndarray[Any, Any]]:
    """Columns to make files of: three observations, one action, and what tells episodes apart."""
    last = dataset.terminations | dataset.truncations
    obs, following = dataset.obs.T, dataset.next_obs.T
    return {
        "s0": obs[0], "s1": obs[1], "s2": obs[2], "n0": following[0], "n1": following[1], "n2": following[2],
        "a": dataset.actions[:, 0], "r": dataset.rewards, "last": last.astype(int), "zero": np.zeros(2_000, int),
        "episode": dataset.episode_ids, "t": np.arange(2_000) % 200,
    }  # fmt: skip


def write_csv(path: Path, columns: dict[str, Sequence[Any]], separator: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def columns_of(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text("utf-8"))["dataset"].get("columns") or {})


HEATING = (
    "Zeit;Charge;Raum;Stufe;Energiekosten;Raum;Schluss;Bemerkung\n;;°C;%;EUR;°C;;\n"
    + "".join(
        f"{1 + n // 4:02}.01.2024 0{n % 4}:00:00;{1000 + n // 4};20,{n};{5 * n % 7},5;0,{n + 1};20,{n};"
        f"{('Tagesende', 'Heiß', 'Tagesende')[n // 4] if n % 4 == 3 else ''};{'Filter' if n == 5 else ''}\n"
        for n in range(12)
    )
)  # fmt: skip


# Each a file with names of its own, and the mapping that is expected of it.
TABLES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "letters": (
        {"s_0": "s0", "s_1": "s1", "s_2": "s2", "a": "a", "r": "r", "done": "last", "episode": "episode"},
        {"obs": "s_*", "actions": "a", "rewards": "r"},
    ),
    "words": (
        {"traj": "episode", "time": "t", "state_x": "s0", "state_y": "s1", "act_left": "a", "reward_total": "r",
         "reward_dense": "a", "crashed": "zero"},
        {"obs": ["state_x", "state_y"], "actions": "act_left", "rewards": "reward_total", "terminations": "crashed",
         "episode_ids": "traj", "step": "time"},
    ),
    "measurements": (
        {"cart_pos": "s0", "cart_vel": "s1", "next_cart_pos": "n0", "next_cart_vel": "n1", "force": "a",
         "Reward": "r", "is_last": "last"},
        {"obs": ["cart_pos", "cart_vel"], "actions": "force", "next_obs": ["next_cart_pos", "next_cart_vel"],
         "dones": "is_last"},
    ),
    "camel case": (
        {"episodeId": "episode", "stateX": "s0", "stateY": "s1", "controlInput": "a", "stepReward": "r"},
        {"obs": ["stateX", "stateY"], "actions": "controlInput", "rewards": "stepReward"},
    ),
    "names with signs": (
        {"pos, x": "s0", "vel: y": "s1", "torque #1": "a", "rew": "r", "timeout": "last"},
        {"obs": ["pos, x", "vel: y"], "actions": "torque #1", "dones": "timeout"},
    ),
    "German": (
        {"Versuch": "episode", "Zeitschritt": "t", "Zustand_1": "s0", "Zustand_2": "s1", "Stellgröße": "a",
         "Belohnung": "r", "Abbruch": "zero", "Zeitlimit": "last"},
        {"obs": ["Zustand_1", "Zustand_2"], "actions": "Stellgröße", "rewards": "Belohnung", "terminations": "Abbruch",
         "truncations": "Zeitlimit", "episode_ids": "Versuch", "step": "Zeitschritt"},
    ),
    "German, put together": (
        {"Lauf-Nr.": "episode", "Schritt": "t", "Raumtemperatur": "s0", "Drehzahl": "s1", "Vorlaufsollwert": "a",
         "Belohnung": "r", "beendet": "last"},
        {"obs": ["Raumtemperatur", "Drehzahl"], "actions": "Vorlaufsollwert", "rewards": "Belohnung",
         "dones": "beendet", "episode_ids": "Lauf-Nr.", "step": "Schritt"},
    ),
    "French": (
        {"Épisode": "episode", "Pas": "t", "État_1": "s0", "État_2": "s1", "Commande": "a", "Récompense": "r"},
        {"obs": ["État_1", "État_2"], "actions": "Commande", "rewards": "Récompense", "episode_ids": "Épisode",
         "step": "Pas"},
    ),
    "Spanish": (
        {"Episodio": "episode", "Paso": "t", "Estado 1": "s0", "Estado 2": "s1", "Acción": "a", "Recompensa": "r"},
        {"obs": ["Estado 1", "Estado 2"], "actions": "Acción", "rewards": "Recompensa", "episode_ids": "Episodio",
         "step": "Paso"},
    ),
    "the package's own": (
        {"obs_0": "s0", "obs_1": "s1", "actions_0": "a", "rewards": "r", "terminations": "zero", "truncations": "last"},
        {},
    ),
}  # fmt: skip


class TestTables:
    @pytest.mark.parametrize("name", TABLES)
    def test_a_clear_file_trains_as_it_is(self, name: str, rows: Any, command: Any, tmp_path: Path) -> None:
        names, expected = TABLES[name]
        write_csv(tmp_path / "log.csv", {column: rows[source] for column, source in names.items()})
        code, out, err = command("init", "log.csv", "--algo", "bc")
        assert (code, err) == (0, "")
        assert "TODO" not in out
        found = columns_of(tmp_path / "config.yaml")
        assert {field: found.get(field) for field in expected} == expected
        assert set(found) - set(expected) <= {"episode_ids", "step"}
        assert command("train", "-c", "config.yaml", *SHORT, "--name", "run").code == 0
        assert (tmp_path / "runs" / "run" / "checkpoints" / "step-3").is_dir()

    def test_what_to_do_next_works_as_printed(self, rows: Any, command: Any, tmp_path: Path) -> None:
        names, _ = TABLES["names with signs"]
        write_csv(tmp_path / "my log.csv", {column: rows[source] for column, source in names.items()})
        out = command("init", "my log.csv").out
        check = next(line for line in out.splitlines() if line.startswith("next: "))
        assert command(*shlex.split(check.removeprefix("next: rl-training "))).code == 0
        train = out.splitlines()[-1].strip()
        assert command(*shlex.split(train.removeprefix("rl-training ")), "--dry-run").code == 0

    def test_parquet_with_lists_and_semicolons(self, dataset: Any, rows: Any, command: Any, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        table = {"state": list(dataset.obs), "u": list(dataset.actions), "r": rows["r"], "traj_id": rows["episode"]}
        parquet.write_table(pa.table(table), tmp_path / "log.parquet")
        assert command("init", "log.parquet", "-o", "p.yaml").code == 0
        assert columns_of(tmp_path / "p.yaml") == {
            "obs": "state", "actions": "u", "rewards": "r", "episode_ids": "traj_id",
        }  # fmt: skip
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": rows["r"], "end": rows["last"]}, ";")
        assert command("init", "log.csv").code == 0
        assert read_config("config.yaml").dataset.columns == {  # type: ignore[union-attr]
            "obs": "s", "actions": "a", "rewards": "r", "dones": "end",
        }  # fmt: skip


class TestArrays:
    def test_npz(self, dataset: TransitionDataset, command: Any, tmp_path: Path) -> None:
        ends = dataset.truncations
        np.savez(
            tmp_path / "log.npz", S=dataset.obs, U=dataset.actions, R=dataset.rewards, S2=dataset.next_obs, cut=ends
        )
        command("init", "log.npz")
        expected = {"obs": "S", "actions": "U", "rewards": "R", "next_obs": "S2", "dones": "cut"}
        found = columns_of(tmp_path / "config.yaml")
        assert {field: found.get(field) for field in expected} == expected
        assert read_config("config.yaml").dataset.dones_are == "truncations"  # type: ignore[union-attr]

    def test_hdf5_with_groups(self, dataset: TransitionDataset, command: Any, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "robot.hdf5", "w") as file:
            file["robot/joints/pos"], file["robot/joints/vel"] = dataset.obs[:, :2], dataset.obs[:, 2:]
            file["ctrl"], file["rewards"], file["fell"] = dataset.actions, dataset.rewards, dataset.truncations
        command("init", "robot.hdf5")
        assert columns_of(tmp_path / "config.yaml") == {
            "obs": ["robot/joints/pos", "robot/joints/vel"], "actions": "ctrl", "terminations": "fell",
        }  # fmt: skip
        assert command("train", "-c", "config.yaml", "--dry-run").code == 0

    @pytest.mark.parametrize("name", ["log.npz", "log.hdf5", "log.parquet", "log/"])
    def test_the_package_s_own_files(self, name: str, data_file: Path, command: Any, tmp_path: Path) -> None:
        TransitionDataset.load(data_file).save(name)
        code, out, _ = command("init", name)
        assert code == 0
        assert columns_of(tmp_path / "config.yaml") == {}
        config = read_config("config.yaml")
        assert (config.algo, config.env_id, config.eval_interval) == ("iql", "Pendulum-v1", 1_000)
        assert "2,000 rows in 10 episodes" in out

    def test_a_group_for_every_episode(self, mistake: Any, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "demo.hdf5", "w") as file:
            file["data/demo_0/actions"] = np.zeros((5, 2))
        assert "holds a group for every episode" in mistake("init", "demo.hdf5")


class TestMinari:
    @pytest.fixture
    def metadata(self, dataset: TransitionDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        pytest.importorskip("minari")
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
        dataset.save("minari:mine/pendulum-v0")
        return tmp_path / "minari" / "mine" / "pendulum-v0" / "data" / "metadata.json"

    def test_by_its_id(self, metadata: Path, command: Any, tmp_path: Path) -> None:
        assert command("init", "minari:mine/pendulum-v0").code == 0
        assert yaml.safe_load((tmp_path / "config.yaml").read_text())["dataset"] == {
            "source": "minari", "id": "mine/pendulum-v0",
        }  # fmt: skip
        assert command("train", "-c", "config.yaml", "--dry-run").code == 0

    def test_entries_of_observations_are_left_to_the_user(
        self, metadata: Path, command: Any, mistake: Any, tmp_path: Path
    ) -> None:
        about = json.loads(metadata.read_text())
        entries = {"observation": {"type": "Box", "shape": [3]}, "goal": {"type": "Box", "shape": [2]}}
        about["observation_space"] = json.dumps({"type": "Dict", "subspaces": entries})
        metadata.write_text(json.dumps(about))
        out = " ".join(command("init", "minari:mine/pendulum-v0").out.split())
        assert "a Dict of observation: Box(3), goal: Box(2)" in out
        assert "obs is still TODO" in mistake("train", "-c", "config.yaml")


class TestUnclear:
    @pytest.fixture
    def unclear(self, rows: Any, tmp_path: Path) -> Path:
        path = tmp_path / "log.csv"
        names = {"foo": "s0", "bar": "s1", "a": "a", "score": "r", "cost": "s2", "done": "last"}
        write_csv(path, {column: rows[source] for column, source in names.items()})
        return path

    def test_is_marked_with_its_candidates(self, unclear: Path, command: Any, tmp_path: Path) -> None:
        code, out, err = command("init", "log.csv")
        assert (code, err) == (0, "")
        places = "dataset.columns.obs, dataset.columns.rewards, dataset.rewards_are"
        assert f"to fill in: {places} in config.yaml, marked TODO\n" in out
        assert "  rewards_are   TODO: costs (lower is better) or rewards (higher is better)?\n" in out
        text = (tmp_path / "config.yaml").read_text()
        assert "    # candidate: obs: [foo, bar]\n    obs: TODO\n" in text
        assert "    # candidate: rewards: score\n" in text
        assert "looks like a cost" in text
        assert "\n  rewards_are: TODO  # costs (lower is better) or rewards (higher is better)\n" in text
        assert [line.split(":")[0].strip() for line in text.splitlines() if "TODO" in line] == [
            "obs", "rewards", "rewards_are",
        ]  # fmt: skip

    def test_is_refused_in_one_line_until_it_is_filled_in(
        self, unclear: Path, command: Any, mistake: Any, tmp_path: Path
    ) -> None:
        command("init", "log.csv")
        lines = {mistake(*words) for words in (("train", "-c", "config.yaml"), ("config", "validate", "config.yaml"))}
        told = "dataset.columns: {} still TODO; name the column, or columns, that hold it"
        sign = "dataset.rewards_are: is still TODO; say costs (lower is better) or rewards (higher is better)"
        assert lines == {f"error: config.yaml: {told.format('obs, rewards are').removesuffix('it')}them; {sign}"}
        file = tmp_path / "config.yaml"
        file.write_text(file.read_text().replace("obs: TODO", "obs: [foo, bar]"))
        assert told.format("rewards is") in mistake("train", "-c", "config.yaml")
        file.write_text(file.read_text().replace("rewards: TODO", "rewards: score"))
        for words in (["train", "--dry-run"], ["data", "check"], ["data", "split", "-o", "a.npz", "b.npz"]):
            assert mistake(*words, "-c", "config.yaml") == f"error: config.yaml: {sign}"
        file.write_text(file.read_text().replace("rewards_are: TODO", "rewards_are: rewards"))
        assert command("train", "-c", "config.yaml", "--dry-run").code == 0
        assert "TODO" not in file.read_text()

    def test_nothing_marks_the_ends(self, rows: Any, command: Any, mistake: Any, tmp_path: Path) -> None:
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": rows["r"]})
        out = command("init", "log.csv").out
        assert "to fill in: dataset.columns.terminations in config.yaml" in out
        assert "terminations is still TODO" in mistake("train", "-c", "config.yaml")

    def test_data_that_cannot_be_read_say_why(self, rows: Any, command: Any, tmp_path: Path) -> None:
        broken = rows["r"].astype(object)
        broken[7] = ""
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": broken, "done": rows["last"]})
        code, out, _ = command("init", "log.csv")
        assert code == 0
        assert "the data cannot be read so: rewards" in " ".join(out.split())
        assert "row 7" in out

    def test_missing_values_may_be_left_out(self, rows: Any, command: Any, mistake: Any, tmp_path: Path) -> None:
        broken = rows["r"].astype(object)
        broken[[7, 9]] = "", "NaN"
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": broken, "done": rows["last"]})
        command("init", "log.csv")
        text = (tmp_path / "config.yaml").read_text("utf-8")
        line = f"  # missing: drop  # 2 of {len(broken):,} rows lack a value: this leaves them out, and cuts there\n"
        assert line in text
        assert "row 7" in mistake("train", "-c", "config.yaml", "--dry-run")
        (tmp_path / "config.yaml").write_text(text.replace("# missing: drop", "missing: drop"), "utf-8")
        assert command("train", "-c", "config.yaml", "--dry-run").code == 0

    def test_missing_values_of_what_may_be_used(self, rows: Any, command: Any, tmp_path: Path) -> None:
        broken = rows["s0"].astype(object)
        broken[3] = ""
        write_csv(tmp_path / "log.csv", {"alpha": broken, "beta": rows["a"], "gamma": rows["r"], "done": rows["last"]})
        assert "alpha is missing in 1 cell of the first" in " ".join(command("init", "log.csv").out.split())
        assert f"# missing: drop  # 1 of {len(broken):,} rows lack a value" in (tmp_path / "config.yaml").read_text(
            "utf-8"
        )

    def test_missing_values_of_many_columns_are_one_note(self, rows: Any, command: Any, tmp_path: Path) -> None:
        columns = {f"s{i}": rows["s0"].astype(object) for i in range(6)}
        for i, broken in enumerate(columns.values()):
            broken[: (2, 9, 1, 0, 4, 4)[i]] = ""
        write_csv(tmp_path / "log.csv", {**columns, "a": rows["a"], "r": rows["r"], "done": rows["last"]})
        out = " ".join(command("init", "log.csv").out.split())
        told = f"note 5 columns lack cells in the first {len(rows['r']):,} rows: s1 in 9, s4 in 4, s5 in 4 and 2 more;"
        assert f"{told} fill them in, or say missing: drop" in out
        assert out.count("fill them in") == 1
        text = " ".join((tmp_path / "config.yaml").read_text("utf-8").replace("\n  # ", " ").split())
        assert text.count("fill them in") == 1

    def test_missing_values_far_down(self, rows: Any, command: Any, tmp_path: Path) -> None:
        many = {name: np.tile(rows[own], 6_000 // len(rows["r"]) + 1) for name, own in
                (("s", "s0"), ("a", "a"), ("r", "r"), ("done", "last"))}  # fmt: skip
        many["r"] = many["r"].astype(object)
        many["r"][-2] = ""
        write_csv(tmp_path / "log.csv", many)
        command("init", "log.csv")
        assert f"# missing: drop  # 1 of {len(many['r']):,} rows lack" in (tmp_path / "config.yaml").read_text("utf-8")

    def test_two_kinds_of_states(self) -> None:
        columns = {name: np.linspace(0, 1, 9) for name in ("state_0", "s_0", "a", "r")}
        found = {guess.field: guess for guess in guess_fields(columns).fields}
        assert not found["obs"].is_clear
        assert found["obs"].candidates == (("state_0",), ("s_0",))
        assert found["actions"].columns == ("a",)

    def test_measurements_that_may_not_be_all(self, rows: Any, command: Any, tmp_path: Path) -> None:
        names = {"cell_temp": "s0", "SoC": "s1", "torque": "a", "r": "r", "done": "last"}
        write_csv(tmp_path / "log.csv", {column: rows[source] for column, source in names.items()})
        command("init", "log.csv")
        text = (tmp_path / "config.yaml").read_text()
        assert "    # candidate: obs: [cell_temp, SoC]\n    # candidate: obs: cell_temp\n    obs: TODO\n" in text

    def test_numbers_written_as_text(self, rows: Any, command: Any, tmp_path: Path) -> None:
        write_csv(tmp_path / "log.csv", {"obs": ["[1, 2]"] * 2_000, "a": rows["a"], "r": rows["r"], "d": rows["last"]})
        out = " ".join(command("init", "log.csv").out.split())
        assert "column 'obs' holds text, '[1, 2]'; give numbers" in out

    def test_values_that_stay_for_a_while_may_be_episodes(self, rows: Any, command: Any, tmp_path: Path) -> None:
        voyages = [f"voyage {number}" for number in rows["episode"]]
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": rows["r"], "voyage": voyages})
        command("init", "log.csv")
        file = tmp_path / "config.yaml"
        assert "    episode_ids: voyage\n" in file.read_text()
        assert "in 10 episodes" in command("train", "-c", "config.yaml", "--dry-run").out

    def test_a_log_of_building_control(self, command: Any, tmp_path: Path) -> None:
        """Units, a column twice, costs, and names that tell nothing but stand in rows that do."""
        (tmp_path / "log.csv").write_text(HEATING)
        code, out, err = command("init", "log.csv")
        assert (code, err) == (0, "")
        assert "log.csv, CSV, 12 rows\n" in out
        assert "taken for units: ;;°C;%;EUR;°C;;" in out
        assert "two columns are named 'Raum'; they hold the same" in out
        assert "Energiekosten looks like a cost" in out
        file = tmp_path / "config.yaml"
        text = file.read_text()
        found = columns_of(file)
        assert (found["episode_ids"], found["end_reasons"], found["step"]) == ("Charge", "Schluss", "Zeit")
        for line in (
            "\n  rewards_are: TODO  # costs (lower is better) or rewards (higher is better)\n",
            "# action_low: NUMBER\n",
            "# action_high: NUMBER\n",
            "    Tagesende: TODO  # ",
        ):
            assert line in text
        assert "  reward_range_scaling: true\n" in text
        for todo, said in {
            "obs": "Raum", "actions": "Stufe", "rewards": "Energiekosten", "rewards_are": "costs",
            "Tagesende": "truncation", "Heiß": "termination",
        }.items():  # fmt: skip
            text = text.replace(f"{todo}: TODO", f"{todo}: {said}")
        file.write_text(text.replace("# action_low", "action_low"))
        said = command("train", "-c", "config.yaml").err
        assert said.startswith("error: config.yaml: dataset.action_low: must be a number")
        file.write_text(text)
        assert "in 3 episodes" in " ".join(command("train", "-c", "config.yaml", "--dry-run").out.split())

    def test_a_charge_is_a_batch_or_a_battery_s(self, rows: Any) -> None:
        known = {"state": rows["s0"], "action": rows["a"], "reward": rows["r"], "done": rows["last"]}
        batches = guess_fields({**known, "Charge": rows["episode"]})
        assert [guess.columns for guess in batches.fields if guess.field == "episode_ids"] == [("Charge",)]
        battery = guess_fields({**known, "charge": rows["s1"]})
        assert "episode_ids" not in [guess.field for guess in battery.fields]

    def test_temps_are_temperatures(self, rows: Any) -> None:
        known = {"action": rows["a"], "reward": rows["r"], "done": rows["last"]}
        found = guess_fields({**known, "temps": rows["s0"], "dia": rows["s1"]})
        assert "step" not in [guess.field for guess in found.fields]

    def test_kosten_are_costs(self, rows: Any) -> None:
        found = guess_fields({"Zustand": rows["s0"], "Aktion": rows["a"], "Kosten": rows["r"], "Ende": rows["last"]})
        (rewards,) = (guess for guess in found.fields if guess.field == "rewards")
        assert (rewards.columns, rewards.why) == (("Kosten",), "the only one that is named like a cost")
        assert found.rewards_are == "costs"

    @pytest.mark.parametrize("others", [{"Gewinn": "r"}, {"score": "r"}])
    def test_a_cost_beside_another_score_stays_open(self, others: Any, rows: Any) -> None:
        columns = {"Zustand": rows["s0"], "Aktion": rows["a"], "Kosten": rows["r"], "Ende": rows["last"]}
        found = guess_fields(columns | {name: rows[key] for name, key in others.items()})
        (rewards,) = (guess for guess in found.fields if guess.field == "rewards")
        assert (rewards.columns, found.rewards_are) == ((), None)
        assert "Kosten looks like a cost, where lower is better" in rewards.why

    def test_a_running_sum_of_costs_stays_open(self, rows: Any) -> None:
        summed = np.cumsum(np.abs(rows["r"]) + 0.1)
        found = guess_fields({"Zustand": rows["s0"], "Aktion": rows["a"], "Kosten": summed, "Ende": rows["last"]})
        (rewards,) = (guess for guess in found.fields if guess.field == "rewards")
        assert (rewards.columns, found.rewards_are) == ((), None)

    def test_columns_without_names(self, rows: Any, command: Any, tmp_path: Path) -> None:
        voyages = [f"F{number}" for number in rows["episode"]]
        table = zip(voyages, rows["s0"], rows["a"], rows["r"], rows["last"], rows["zero"], strict=True)
        (tmp_path / "log.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in table))
        command("init", "log.csv")
        text = (tmp_path / "config.yaml").read_text()
        assert "    episode_ids: column_0\n" in text
        assert "    dones: column_4\n" in text
        assert "1 in last rows of episodes only" in text
        assert "    # step: COLUMN  # " in text
        table = zip(voyages, rows["s0"], rows["a"], rows["r"], strict=True)
        (tmp_path / "log.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in table))
        command("init", "log.csv", "--force")
        assert "    # end_reasons: COLUMN  # " in (tmp_path / "config.yaml").read_text()

    def test_text_in_few_rows_may_be_reasons(self, rows: Any, command: Any, tmp_path: Path) -> None:
        texts = ["Schluss" if last else "" for last in rows["last"]]
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": rows["r"], "Vermerk": texts})
        command("init", "log.csv")
        text = (tmp_path / "config.yaml").read_text()
        assert "    # candidate: end_reasons: Vermerk\n    end_reasons: TODO\n" in text

    def test_whole_actions_are_pointed_out(self, rows: Any, command: Any, tmp_path: Path) -> None:
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["t"] % 3, "r": rows["r"], "done": rows["last"]})
        assert "numbers of choices cannot be learned" in " ".join(command("init", "log.csv").out.split())


class TestRecommendation:
    @pytest.mark.parametrize(
        ("reward", "algo", "reason"),
        [
            (lambda rows: rows["r"], "iql", "mixed data"),
            (lambda rows: np.ones(2_000), "bc", "every reward is 1"),
            (lambda rows: 1.0 + 1e-4 * rows["s0"], "td3_bc", "all about the same"),
            (lambda rows: ((rows["episode"] == 3) & (rows["t"] > 150)) * 1.0, "iql", "sparse rewards"),
        ],
    )
    def test_with_a_reason(self, reward: Any, algo: str, reason: str, rows: Any, command: Any, tmp_path: Path) -> None:
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": reward(rows), "done": rows["last"]})
        out = " ".join(command("init", "log.csv").out.split())
        assert f"algorithm {algo} (" in out
        assert reason in out
        assert read_config("config.yaml").algo == algo

    def test_costs_are_told_as_they_stand_in_the_file(self, rows: Any, tmp_path: Path) -> None:
        columns = {"obs": "s", "actions": "a", "rewards": "r", "terminations": "done"}
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": np.ones(2_000), "done": rows["last"]})
        data = TransitionDataset.load(tmp_path / "log.csv", columns=columns, rewards_are="costs")
        assert recommend(data).why.startswith("every cost is 1: nothing tells")

    @pytest.mark.parametrize(
        ("algo", "factor", "is_scaled"),
        [("iql", 0.01, True), ("awac", 0.01, True), ("crr", 0.01, True), ("awr", 0.01, False), ("cql", 0.01, False)],
    )
    def test_rewards_are_scaled_for_weights(
        self, algo: str, factor: float, is_scaled: bool, rows: Any, command: Any, tmp_path: Path
    ) -> None:
        columns = {"s": rows["s0"], "a": rows["a"], "r": factor * rows["r"], "done": rows["last"]}
        write_csv(tmp_path / "log.csv", columns)
        command("init", "log.csv", "--algo", algo)
        assert read_config("config.yaml").transforms.reward_range_scaling is is_scaled
        assert command("train", "-c", "config.yaml", *SHORT).code == 0

    def test_rewards_that_have_the_scale_keep_it(self, rows: Any, command: Any, tmp_path: Path) -> None:
        rewards = np.where(rows["episode"] == 3, 5.0, 0.0)
        write_csv(tmp_path / "log.csv", {"s": rows["s0"], "a": rows["a"], "r": rewards, "done": rows["last"]})
        command("init", "log.csv", "--algo", "iql")
        assert "reward_range_scaling" not in (tmp_path / "config.yaml").read_text()

    @pytest.mark.parametrize(("episodes", "preset"), [(10, "layernorm"), (1, None)])
    def test_iql_takes_layernorm_where_returns_span_something(
        self, episodes: int, preset: str | None, rows: Any, command: Any, tmp_path: Path
    ) -> None:
        columns = {"s": rows["s0"], "a": rows["a"], "r": rows["r"], "done": rows["last"]}
        write_csv(tmp_path / "log.csv", {name: values[: 200 * episodes] for name, values in columns.items()})
        command("init", "log.csv")
        config = read_config("config.yaml")
        assert (config.algo, config.preset) == ("iql", preset)
        assert config.algo_kwargs["value_layer_norm"] == ("none" if preset is None else "pre")
        assert command("train", "-c", "config.yaml", "--dry-run").code == 0
        assert command("train", "-c", "config.yaml", "--set", "algo=bc", "--dry-run").code == 0

    def test_another_is_taken_if_asked_for(self, data_file: Path, command: Any, tmp_path: Path) -> None:
        command("init", data_file, "--algo", "cql", "-o", "other.yaml")
        text = (tmp_path / "other.yaml").read_text()
        assert "\nalgo: cql\n" in text
        assert "Recommended for these data: iql" in text


class TestNextSteps:
    def test_without_a_simulator_episodes_are_set_aside_before_training(
        self, rows: Any, command: Any, tmp_path: Path
    ) -> None:
        columns = {"run": np.arange(2_000) // 50, "cost": -rows["r"]}
        columns |= {name: rows[name] for name in ("s0", "s1", "s2", "a")}
        write_csv(tmp_path / "log.csv", columns)
        told = command("init", "log.csv", "-o", "my.yaml").out
        steps = [line.removeprefix("next:").strip() for line in told[told.index("next: ") :].splitlines()]
        assert steps == [
            "rl-training data check -c my.yaml",
            "rl-training data split -c my.yaml -o train.csv aside.csv  # no simulator: some episodes to judge by",
            "rl-training train -c my.yaml --set dataset=train.csv",
            "rl-training evaluate RUN --offline --data aside.csv",
        ]
        costs = (-rows["r"].astype(np.float64)).reshape(40, 50).sum(axis=1)
        assert f"(episodes cost {readable(costs.min())} to {readable(costs.max())}: mixed data" in " ".join(
            told.split()
        )
        assert command(*shlex.split(steps[1])[1:8]).code == 0
        assert command(*shlex.split(steps[2])[1:], "--dry-run").code == 0
        assert "data split" not in command("init", "train.csv").out  # they are set aside already
        assert "data split" not in command("init", "log.csv", "-o", "few.yaml", "--env-id", "Pendulum-v1").out

    def test_a_log_that_is_called_as_a_part_is_read_once_and_not_written_over(
        self, rows: Any, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        columns = {"run": np.arange(2_000) // 50, "cost": -rows["r"]}
        write_csv(tmp_path / "train.csv", columns | {name: rows[name] for name in ("s0", "s1", "s2", "a")})
        load, read = TransitionDataset.load, []
        monkeypatch.setattr(TransitionDataset, "load", lambda path, **said: read.append(path) or load(path, **said))
        told = command("init", "train.csv").out
        assert read == [Path("train.csv")]
        split, train, judge = [line.strip() for line in told[told.index("next: ") :].splitlines()][1:]
        assert split.startswith("rl-training data split -c config.yaml -o train-2.csv aside-2.csv  #")
        assert (train.split("=")[1], judge.split()[-1]) == ("train-2.csv", "aside-2.csv")
        assert command(*shlex.split(split)[1:8]).code == 0


class TestColumnsInTheWay:
    def test_text_among_numbers_and_rows_that_come_twice(self, rows: Any, command: Any, tmp_path: Path) -> None:
        temperature: list[Any] = rows["s1"].tolist()
        temperature[500], temperature[900] = "ERR", "n/a"
        columns = {"run": rows["episode"], "t": rows["t"], "s": rows["s0"], "tmp": temperature, "a": rows["a"],
                   "r": rows["r"], "press": 7.5 + rows["zero"]}  # fmt: skip
        doubled = {
            name: [*list(values)[:301], list(values)[300], *list(values)[301:]] for name, values in columns.items()
        }
        write_csv(tmp_path / "log.csv", doubled)
        told = " ".join(command("init", "log.csv").out.split())
        assert "missing_words ERR (a few cells among numbers; guessed to stand for missing ones)" in told
        assert "\n  missing_words: [ERR]  #" in (tmp_path / "config.yaml").read_text()
        assert "not used tmp, press (always 7.5)" in told
        assert "1 of the first 2,001 rows say the same as the row before, t included" in told
        assert "\n  duplicates: drop  # rows that repeat the row before" in (tmp_path / "config.yaml").read_text()

    def test_a_decimal_comma_among_points(self, rows: Any, command: Any, tmp_path: Path) -> None:
        cells = [str(value) for value in rows["s1"].tolist()]
        cells[3] = cells[3].replace(".", ",")
        columns = {"run": rows["episode"], "s": rows["s0"], "tmp": cells, "a": rows["a"], "r": rows["r"]}
        write_csv(tmp_path / "log.csv", columns)
        told = " ".join(command("init", "log.csv").out.split())
        assert f"not used tmp ('{cells[3]}' at row 3, counted from 0, has a comma: write decimals with a point" in told

    def test_doubled_rows_beyond_those_looked_at_are_read_without_them(
        self, rows: Any, command: Any, tmp_path: Path
    ) -> None:
        columns = {"run": rows["episode"], "t": rows["t"], "s": rows["s0"], "a": rows["a"], "r": rows["r"]}
        many = {name: np.concatenate([values] * 4) for name, values in columns.items()}
        many["run"] = np.repeat(np.arange(4), len(rows["t"])) * 1000 + many["run"]
        write_csv(tmp_path / "log.csv", {name: [*values.tolist(), values[-1].item()] for name, values in many.items()})
        told = command("init", "log.csv").out
        assert "1 row left out: it is a copy of the row before (duplicates: drop)" in " ".join(told.split())
        assert "\n  duplicates: drop  #" in (tmp_path / "config.yaml").read_text()
        assert "8,000 rows" in told

    def test_an_id_among_numbers_is_no_missing_value(self, rows: Any, command: Any, tmp_path: Path) -> None:
        ids = [str(i) if i != 7 else "test" for i in range(30) for _ in range(6)]
        columns = {"batch": ids, "s": rows["s0"][:180], "a": rows["a"][:180], "r": rows["r"][:180]}
        write_csv(tmp_path / "log.csv", columns)
        assert "missing_words" not in command("init", "log.csv").out
        assert "episode_ids: batch" in (tmp_path / "config.yaml").read_text()

    def test_bounds_of_an_array_of_actions(self, rows: Any, command: Any, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "log.h5", "w") as file:
            file["daq/x"] = rows["s0"]
            file["daq/u_cmd"] = np.stack([rows["a"], 3 * rows["a"]], axis=1)
            file["k"] = rows["t"]
        command("init", "log.h5")
        text = (tmp_path / "config.yaml").read_text()
        assert "daq/u_cmd[1] -" in " ".join(text.replace("#", "").split())
        assert "  # action_low: [-" in text
        assert "    step: k\n" in text


class TestMistakes:
    def test_all_that_is_to_do_is_told_at_once(self, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text(
            "algo: iql\ndataset:\n  source: file\n  path: log.csv\n  columns: {obs: TODO, rewards: TODO}\n"
            "  end_reasons: {frost: TODO, wind: TODO, crash: termination}\n"
        )
        said = mistake("config", "validate", "c.yaml")
        assert "dataset.columns: obs, rewards are still TODO; name the column" in said
        assert "dataset.end_reasons: frost, wind are still TODO; say termination, truncation or ongoing" in said

    def test_the_command_in_its_first_line_works(self, data_file: Path, command: Any, tmp_path: Path) -> None:
        command("init", data_file, "-o", "mine.yaml")
        text = (tmp_path / "mine.yaml").read_text()
        assert "every option: rl-training config show mine.yaml." in " ".join(text[:200].replace("#", "").split())
        assert command("config", "show", "mine.yaml").code == 0

    def test_nothing_is_overwritten(self, data_file: Path, command: Any, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_text("mine")
        told = "error: --output config.yaml: exists already; --force replaces it, -o FILE writes another"
        assert mistake("init", data_file) == told
        assert command("init", data_file, "--force").code == 0
        assert read_config("config.yaml").algo == "iql"

    def test_each_is_one_line(self, data_file: Path, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "empty.csv").write_text("s,a,r,done\n")
        (tmp_path / "picture.csv").write_bytes(b"\x89PNG")
        assert "no such file" in mistake("init", "nowhere.csv")
        assert mistake("init", "empty.csv") == "error: empty.csv: has a header, but no rows"
        assert "not a dataset in a format" in mistake("init", "picture.csv")
        assert "did you mean 'cql'?" in mistake("init", data_file, "--algo", "cqll")
        assert "did you mean 'Pendulum-v1'?" in mistake("init", data_file, "--env-id", "Pendulm-v1")
        assert "but environment 'MountainCarContinuous-v0' has 2" in mistake(
            "init", data_file, "--env-id", "MountainCarContinuous-v0"
        )
        assert "/dev/null is no folder" in mistake("init", data_file, "-o", "/dev/null/c.yaml")
        assert "is a folder" in mistake("init", data_file, "-o", ".")
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "kiln.txt").write_text("a")
        assert "kiln.txt: no such file; did you mean 'in/kiln.txt'?" in mistake("init", "kiln.txt")
        (tmp_path / "in" / "deep").mkdir()
        assert "did you mean 'in/deep/../kiln.txt'?" in mistake("init", "in/deep/kiln.txt")
        assert "--output c.txt: must end in .yaml or .yml; -o c.yaml" in mistake("init", data_file, "-o", "c.txt")

    def test_an_environment_that_is_not_here_is_left_out(
        self, dataset: TransitionDataset, command: Any, tmp_path: Path
    ) -> None:
        with h5py.File(tmp_path / "log.hdf5", "w") as file:
            for name, values in dataset.to_dict().items():
                file[name] = values
            file.attrs["env_id"] = "MyRobot-v0"
        assert command("init", "log.hdf5").code == 0
        assert read_config("config.yaml").env_id is None
        assert "The data name MyRobot-v0, which cannot be used here" in " ".join(
            (tmp_path / "config.yaml").read_text().replace("#", "").split()
        )


@pytest.mark.parametrize(("algo", "has_it"), [("td3_bc", True), ("bc", False)])
def test_a_preset_is_mentioned_where_the_algorithm_has_it(
    command: Any, rows: dict[str, Any], tmp_path: Path, algo: str, has_it: bool
) -> None:
    names = {"obs_0": "s0", "action": "a", "reward": "r", "done": "last", "episode": "episode"}
    write_csv(tmp_path / "log.csv", {name: rows[key] for name, key in names.items()})
    command("init", "log.csv", "--algo", algo)
    text = Path("config.yaml").read_text()
    assert ("\n# preset: layernorm  # " in text) == has_it
    Path("config.yaml").write_text(text.replace("# preset: ", "preset: "))
    assert read_config("config.yaml").preset == ("layernorm" if has_it else None)


@pytest.mark.parametrize("named", ["action", "heater_pct"])
def test_a_switch_among_the_actions_is_not_averaged(
    named: str, rows: dict[str, Any], command: Any, tmp_path: Path
) -> None:
    """Known as an action by its name, or only likely to be one."""
    heater = np.where(rows["a"] > 0.5, 0.5 + rows["a"] / 4, 0.01 * np.abs(rows["a"])).round(4)
    table = {"s_0": rows["s0"], named: heater, "reward": rows["r"], "terminated": rows["last"]}
    write_csv(tmp_path / "log.csv", table)
    command("init", tmp_path / "log.csv", "-o", tmp_path / "config.yaml")
    text = (tmp_path / "config.yaml").read_text()
    assert f"As of a switch: {named} is hardly ever between 0.0" in text
    assert yaml.safe_load(text)["transforms"]["snap_actions"] is True
    write_csv(tmp_path / "dial.csv", {**table, named: rows["a"]})
    command("init", tmp_path / "dial.csv", "-o", tmp_path / "dial.yaml")
    assert "snap_actions" not in (tmp_path / "dial.yaml").read_text()


def test_controls_with_units_in_their_cells_are_named(tmp_path: Path, command: Any) -> None:
    """One that is left out of the actions without a word would be missed by nobody until the policy acts."""
    lines = [f"{i % 7}.5,{i % 3},{i % 5} kW,{i % 4 / 2}%,{i % 2},{int(i % 20 == 19)}" for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["temp,valve,heater,vent,reward,done", *lines]))
    told = " ".join(command("init", tmp_path / "log.csv", "-o", tmp_path / "a.yaml").out.split())
    assert "actions valve, vent (named like controls)" in told
    assert "heater (named like a control; numbers with a unit, such as '0 kW': write them without it, to use" in told
