"""What the documents say is so: scores are the measured ones, names exist, commands and examples run, links lead on."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import statistics
import sys
import typing
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import typer

from rl_training import algorithms, yaml_dialect
from rl_training.cli.main import app
from rl_training.data.batch import Batch
from rl_training.data.offline_dataset import FIELD_ALIASES
from rl_training.data.transforms import TransformConfig
from rl_training.errors import ConfigError
from rl_training.experiment.config import apply_override, packaged_configs, read_config
from rl_training.runtime.config import EarlyStoppingConfig, EvaluationConfig, OnlineConfig, TrainConfig
from rl_training.runtime.presets import presets
from rl_training.runtime.records import EVALUATION_METRICS
from small_runs import knobs
from website.reference import algorithm_index, algorithm_page
from website.site import generated_pages

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text("utf-8")
DOCS = REPOSITORY / "docs"
SOURCE = REPOSITORY / "src" / "rl_training"

WRITTEN = {page.stem: page for page in sorted((DOCS / "algorithms").glob("*.md"))}
# Pages whose every name is held to the source; of an algorithm's own page, to that algorithm.
PAGES = {**WRITTEN, "choosing": DOCS / "choosing.md", "conventions": DOCS / "conventions.md"}
SECTIONS = {
    "transforms": TransformConfig,
    "evaluation": EvaluationConfig,
    "early_stopping": EarlyStoppingConfig,
    "online": OnlineConfig,
}
# Metrics that only an option brings about.
OPTIONS_WITH_METRICS: dict[str, dict[str, Any]] = {"cql": {"target_gap": 1.0}}

each_page = pytest.mark.parametrize("name", PAGES)


# Scores -------------------------------------------------------------------------------------------------------------


def measured() -> dict[str, str]:
    """Each algorithm's score as the documents write it."""
    rows = json.loads((REPOSITORY / "benchmarks/results/scores.json").read_text())["results"]
    return {row["config"].partition("/")[0]: f"{row['mean']:.1f} ± {row['std_over_seeds']:.1f}" for row in rows}


def test_scores_in_the_table_are_the_measured_ones() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", README, flags=re.MULTILINE))
    assert len(table) >= 11
    assert table.keys() <= algorithms.find().keys()
    for name, shown in table.items():
        assert shown == measured()[name]


def test_scores_on_the_pages_are_the_measured_ones() -> None:
    table = dict(re.findall(r"\| `(\w+)`[^|]* \| (-[^|]+ ± [^|]+) \|", PAGES["choosing"].read_text("utf-8")))
    assert len(table) >= 11
    assert table == {name: measured()[name] for name in table}
    for page in PAGES.values():
        shown = re.findall(r"-\d+\.\d ± \d+\.\d", page.read_text("utf-8"))
        assert set(shown) <= set(measured().values()), page.name


# Pages and what they are made of ------------------------------------------------------------------------------------


def load_script(path: Path) -> ModuleType:
    """A script beside the package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text(name: str) -> str:
    return WRITTEN[name].read_text("utf-8")


def fenced(page: Path, language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def spans(page: Path) -> list[str]:
    """Everything in single backticks outside the code blocks, in one line each."""
    prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def test_every_algorithm_has_its_page() -> None:
    """A page may lag behind a new algorithm, whose docstring stands in for it; none may outlive its algorithm."""
    assert len(WRITTEN) >= 11
    assert WRITTEN.keys() <= algorithms.find().keys()
    for name, summary in algorithms.find().items():
        page = algorithm_page(name)
        assert (summary in page) == (name not in WRITTEN)
        assert "## Parameters (`algo_kwargs`)" in page
        assert f"- `{name}/pendulum`" in page
        assert f"[{name}]({name}.md)" in algorithm_index()


def test_an_unwritten_page_is_made_from_the_docstring(tmp_path: Path) -> None:
    page = algorithm_page("bc", written=tmp_path)
    assert page.startswith("# BC\n\n```text\nBehaviour cloning: supervised regression")
    assert "L = mean_{batch, dims} (π(s) - a)²" in page
    assert "| `best_fraction` | `1` |" in page
    assert "| `best-10-percent` |" in page


@pytest.mark.parametrize("name", WRITTEN)
def test_pages_have_the_same_sections(name: str) -> None:
    headings = re.findall(r"^## (.*)$", WRITTEN[name].read_text("utf-8"), flags=re.MULTILINE)
    assert headings == [
        "When to choose it",
        "Equations",
        "Knobs that matter",
        "What differs from the paper, and why",
        "Going wrong",
        "Try it",
    ]


@pytest.mark.parametrize("name", WRITTEN)
def test_pages_name_what_fine_tuning_changes(name: str) -> None:
    """Somebody who gives a parameter must learn where it does not stay as given."""
    (deviations,) = re.findall(r"^## What differs[^\n]*\n(.*?)^## ", text(name), flags=re.MULTILINE | re.DOTALL)
    missing = [key for key in algorithms.load(name).finetuning if f"`{key}`" not in deviations]
    assert missing == []


@pytest.mark.parametrize("name", WRITTEN)
def test_pages_name_every_preset(name: str) -> None:
    """All but ReBRAC's, of which each D4RL dataset has one."""
    datasets = r"(halfcheetah|hopper|walker2d|antmaze|pen|door|hammer|relocate|maze2d)-"
    own = [preset for preset in presets(name) if name != "rebrac" or not re.match(datasets, preset)]
    assert [preset for preset in own if not re.search(rf"`(preset: )?{preset}`", text(name))] == []
    assert bool(presets(name)) is ("There are no presets" not in text(name))


# Names --------------------------------------------------------------------------------------------------------------


@cache
def definitions() -> set[str]:
    """Functions, classes and constants of the package, and `Class.member`."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        body = ast.parse(file.read_text("utf-8")).body
        found |= set(names_in(body))
        for node in body:
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{member}" for member in names_in(node.body)}
    return found


def names_in(body: list[ast.stmt]) -> list[str]:
    """What a module or a class defines itself."""
    named = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in body if isinstance(node, ast.AnnAssign)]
    return named + [target.id for target in targets if isinstance(target, ast.Name)]


def algorithms_of(name: str) -> list[str]:
    """The algorithms a page speaks of: its own, or on a general page all."""
    return [name] if name in WRITTEN else list(algorithms.find())


@cache
def metrics(algo: str) -> set[str]:
    """What the learner emits over a period of updates, and what collecting experience adds."""
    learner = algorithms.load(algo)(3, 1, **knobs(algo), **OPTIONS_WITH_METRICS.get(algo, {}))
    wide, narrow, flat = torch.zeros(1, 8, 3), torch.zeros(1, 8, 1), torch.zeros(1, 8)
    batch = Batch(wide, narrow, flat, wide, flat, next_actions=narrow, returns_to_go=flat)
    emitted = {metric for _ in range(learner.period) for metric in learner.update(batch).metrics}
    return emitted | set(re.findall(r'"(data/\w+)"', (SOURCE / "runtime" / "online.py").read_text("utf-8")))


@cache
def identifiers(algo: str) -> set[str]:
    """Every plain name that a page about an algorithm may use: source, parameters, options, fields, presets."""
    parameters = algorithms.load(algo).Params.model_fields
    options = {option for field in parameters.values() for option in typing.get_args(field.annotation)}
    inside = {key for section in SECTIONS.values() for key in section.model_fields}
    dotted = {f"{name}.{key}" for name, section in SECTIONS.items() for key in section.model_fields}
    words = {option for option in options if isinstance(option, str)}
    known = {*definitions(), *parameters, *words, *TrainConfig.model_fields, *inside, *dotted}
    return known | {*FIELD_ALIASES, *EVALUATION_METRICS, *algorithms.find(), *presets(algo)}


def is_setting(text: str, algo: str) -> bool:
    """Whether `key: value` or `key=value` is accepted by a configuration of the algorithm."""
    key, value = re.split(r": |=", text, maxsplit=1)
    place = "" if key.partition(".")[0] in TrainConfig.model_fields else "algo_kwargs."
    values: dict[str, Any] = {"algo": algo, "total_timesteps": 1}
    try:
        apply_override(values, f"{place}{key}={value}")
        TrainConfig.parse(values)
    except ConfigError:
        return False
    return True


def is_known(span: str, algo: str) -> bool:
    """Whether what stands in backticks exists. A span of a form that cannot be checked does not pass."""
    if span.startswith("rl-training"):
        return command_exists(span)
    if re.fullmatch(r"[\w.]+(: |=)\S.*", span):
        return is_setting(span, algo)
    if "/" in span:
        own = {f"{algo}/{preset}" for preset in presets(algo)}
        return span in metrics(algo) or span in packaged_configs() or span in own
    return span in identifiers(algo)


@each_page
def test_names_exist(name: str) -> None:
    unknown = [span for span in spans(PAGES[name]) if not any(is_known(span, a) for a in algorithms_of(name))]
    assert unknown == []


@pytest.mark.parametrize(
    "span",
    [
        "critic/los",
        "lagrange/value",  # CQL's
        "cql_alpha",
        "awac/hopper",
        "weight_type: hard",
        "preset: papier",
        "d4rl-kitchen",
        "awac_lose",
        "AWAC.stop",
        "online.priors=buffer",
        "rl-training finetune --stepps",
        "rl-training trane",
        "π(s) + ε",
    ],
)
def test_a_wrong_name_is_found(span: str) -> None:
    assert not is_known(span, "awac")


@pytest.mark.parametrize(
    "span", ["actor/max_weight", "awac/pendulum", "beta", "online.prior=buffer", "AWAC.step", "preset: hand"]
)
def test_a_right_name_passes(span: str) -> None:
    assert is_known(span, "awac")


@pytest.mark.parametrize("name", WRITTEN)
def test_equations_name_the_functions_that_compute_them(name: str) -> None:
    (equations,) = fenced(WRITTEN[name], "text")
    lines = equations.splitlines()
    functions = [line.rpartition("# ")[2].split(", ") for line in lines if "# " in line]
    assert len(functions) == len(lines)
    assert [function for named in functions for function in named if function not in definitions()] == []
    assert f"{name}_loss" in equations or f"`{name}_loss`" in WRITTEN[name].read_text("utf-8")


# Commands and examples ----------------------------------------------------------------------------------------------


def find_command(line: str) -> tuple[Any, list[str]]:
    """The command a line calls and its arguments; an unknown command is an error."""
    program, *arguments = shlex.split(line, comments=True)
    assert program == "rl-training"
    command: Any = typer.main.get_command(app)
    while arguments and hasattr(command, "commands"):
        name, *arguments = arguments
        assert name in command.commands, line
        command = command.commands[name]
    return command, arguments


def command_exists(line: str) -> bool:
    """Whether a command mentioned in passing, arguments left out, exists with its options."""
    try:
        command, arguments = find_command(line)
    except AssertionError:
        return False
    options = {option for parameter in command.params for option in parameter.opts}
    return all(argument in options for argument in arguments if argument.startswith("-"))


@each_page
def test_commands_are_accepted(name: str) -> None:
    lines = [line for block in fenced(PAGES[name], "bash") for line in block.splitlines() if line]
    assert lines or name not in WRITTEN
    started = set()
    for line in lines:
        command, arguments = find_command(line)
        given = command.make_context(command.name, arguments).params
        overrides = given.get("set_") or ()
        if command.name in ("train", "show", "validate"):
            read_config(given.get("config") or given["name"], overrides)
            started.add(given["name"])
        elif runs := given.get("runs") or [given[key] for key in ("run",) if key in given]:
            assert {str(run) for run in runs} <= started, f"{line}: no command before it makes that run"
            read_config(f"{name}/pendulum", overrides)


@each_page
def test_configurations_are_accepted(name: str) -> None:
    for block in fenced(PAGES[name], "yaml"):
        config = TrainConfig.parse(yaml_dialect.read(block))
        assert config.algo in algorithms_of(name)


# Links --------------------------------------------------------------------------------------------------------------


def broken_links(page: Path) -> list[str]:
    """Those that lead nowhere in the repository; what the site's own pages are called is only there."""
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8"))
    inside = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    return [link for link in inside if not (page.is_relative_to(DOCS) and is_generated(page, link))]


def is_generated(page: Path, link: str) -> bool:
    target = (page.parent / link).resolve()
    return target.is_relative_to(DOCS) and target.relative_to(DOCS).as_posix() in generated_pages()


def test_scores_on_real_data_are_the_measured_ones() -> None:
    """The page on choosing shows some columns of the page of scores."""
    chosen = PAGES["choosing"].read_text("utf-8").partition("| on real data |")[2].partition("\n\n")[0]
    header, _, *rows = chosen.splitlines()
    wanted = [name.strip() for name in header.split("|")[:-1]]
    shown = {row.split("|")[1].strip(): [cell.strip() for cell in row.split("|")[2:-1]] for row in rows}
    lines = (DOCS / "benchmarks/offline_scores.md").read_text("utf-8").split("\n| | ")[1].split("\n\n")[0].splitlines()
    names = [name.strip() for name in lines[0].split("|")[:-1]]
    table = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in lines[2:]}
    assert len(shown) >= 9
    assert shown == {name: [table[name][names.index(column)] for column in wanted] for name in shown}


def test_what_prior_data_bring_is_what_was_measured() -> None:
    curves = json.loads((REPOSITORY / "benchmarks/results/online_curves.json").read_text())["curves"]
    text = (DOCS / "tutorials/online.md").read_text("utf-8")
    shown = re.findall(r"\| ([\d,]+) \| (-[\d.]+ ± [\d.]+) \|$", text, flags=re.MULTILINE)
    order = ("rlpd:scripted", "rlpd:pendulum_replay", "rlpd_no_data", "sac_many", "sac_single")
    summaries = [curves[name]["summary"] for name in order]
    ends = [f"{s['final_mean']:.1f} ± {s['final_std_over_seeds']:.1f}" for s in summaries]
    assert shown == [(f"{s['every_seed_solved_at']:,}", end) for s, end in zip(summaries, ends, strict=True)]


def test_steps_until_solved_are_the_measured_ones() -> None:
    curves = json.loads((REPOSITORY / "benchmarks/results/online_curves.json").read_text())["curves"]
    steps = [curves[name]["summary"]["every_seed_solved_at"] for name in ("rlpd:scripted", "sac_many", "sac_single")]
    paragraph = next(text for text in README.split("\n\n") if text.startswith("Online, all five seeds"))
    assert re.findall(r"after ([\d,]+)", paragraph) == [f"{count:,}" for count in steps]


def test_estimates_without_a_simulator_are_the_measured_ones() -> None:
    script = load_script(REPOSITORY / "benchmarks/offline_evaluation.py")
    results = json.loads(script.RESULTS.read_text())["results"]
    text = script.PAGE.read_text("utf-8").partition(script.MARKS[0])[2].partition(script.MARKS[1])[0]
    assert text == script.measured(results)
    assert [found["dataset"] for found in results] == [*script.FILES]
    assert all(found["agreement"] == script.agreement(found["policies"]) for found in results)
    told = script.agreement([row for found in results for row in found["policies"]])["trusted"]
    assert told["policies"] == told["intervals_that_hold_the_truth"]
    assert told["rank_correlation_with_value"] > 0.9


def test_the_page_of_scores_is_what_was_measured() -> None:
    tables = load_script(REPOSITORY / "benchmarks/score_tables.py")
    assert (DOCS / "benchmarks/offline_scores.md").read_text("utf-8") == tables.page()


def test_the_page_of_speed_is_what_was_measured() -> None:
    speed = load_script(REPOSITORY / "benchmarks/speed_page.py")
    assert (DOCS / "benchmarks/speed.md").read_text("utf-8") == speed.page()


def test_the_speed_told_first_is_the_measured_one() -> None:
    stored = json.loads((REPOSITORY / "benchmarks" / "results" / "bench-gpu.json").read_text("utf-8"))["updates"]
    rates = {row["members"]: statistics.median(row["rates"]) for row in stored if row["algo"] == "td3_bc"}
    told = f"{rates[1]:,.0f} updates of TD3+BC a second with one seed, {64 * rates[64]:,.0f} with 64 seeds together"
    assert f"One H200 does {told}" in " ".join(README.split())


def test_the_page_of_latency_is_what_was_measured() -> None:
    latency = load_script(REPOSITORY / "benchmarks/latency.py")
    assert (DOCS / "benchmarks/latency.md").read_text("utf-8") == latency.page()


def test_the_page_of_promises_is_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    faults = load_script(REPOSITORY / "benchmarks/fault_page.py")
    text = (DOCS / "reliability.md").read_text("utf-8")
    assert faults.page(text, faults.stored()) == text
    assert set(faults.stored()["products"]) == set(faults.COLUMNS)


def test_the_tests_that_hold_each_promise_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (DOCS / "reliability.md").read_text("utf-8"))
    assert len(named) >= 18
    for file, test in named:
        assert re.search(rf"^ *def {test}\(", (REPOSITORY / file).read_text("utf-8"), flags=re.MULTILINE), test


def test_links_lead_somewhere() -> None:
    assert re.findall(r"\]\(([^)#]+)\)", README)
    for page in (*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md")):
        assert broken_links(page) == [], page.name
