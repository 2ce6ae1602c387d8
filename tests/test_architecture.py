"""Rules about the source itself: layers, code that may run nothing it reads, sizes, and a light command line."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "rl_training"
SOURCE = Path(__file__).resolve().parent.parent / "src" / PACKAGE

# From the bottom up; the modules of the root (errors.py, streams.py, environments.py) lie below all of them.
LAYERS = ("data", "models", "algorithms", "runtime", "experiment", "api", "cli")
ROOT_MODULES = 0
# Resources, with no code worth a layer of their own.
BOTTOM_PACKAGES = ("assets",)

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60

FORBIDDEN_MODULES = (
    *("pickle", "_pickle", "pickletools", "marshal", "shelve", "dbm", "cloudpickle", "dill", "joblib", "jsonpickle"),
    *("subprocess", "pty", "runpy", "imp", "zipimport", "code", "codeop"),
)
FORBIDDEN_NAMES = {
    "torch.load",
    "torch.jit.load",
    "torch.hub.load",
    "torch.package.PackageImporter",
    "pandas.read_pickle",
    "numpy.fromregex",
    *(f"yaml.{name}" for name in ("Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader", "CUnsafeLoader")),
    *(
        f"yaml.{module}.{name}"
        for module in ("loader", "constructor")
        for name in ("UnsafeLoader", "UnsafeConstructor")
    ),
    *(f"os.{name}" for name in ("system", "popen", "startfile", "posix_spawn", "posix_spawnp", "fork", "forkpty")),
    *(f"os.{kind}{how}" for kind in ("exec", "spawn") for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *(f"asyncio.create_subprocess_{how}" for how in ("exec", "shell")),
    *(
        f"importlib.{name}"
        for name in ("__import__", "reload", "util.spec_from_file_location", "util.module_from_spec")
    ),
    "importlib.machinery.SourceFileLoader",
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
    *(f"{prefix}{name}" for prefix in ("", "builtins.") for name in ("eval", "exec", "compile", "__import__")),
}
# Where a module is imported by a name, which is one of the package's own: listed from its files, or a constant.
MAY_IMPORT_BY_NAME = {"__init__.py", "algorithms/__init__.py", "runtime/trainer.py"}
# `contest.py` measures beside programs that its caller names; nothing that is read from a file gets there.
MAY_START_PROGRAMS = {
    "experiment/contest.py",
    "cli/machine_check.py",
}  # peers in a race; this Python, asked about torch
READ_ARRAYS = ("numpy.load", "numpy.lib.format.read_array")  # which open a pickle where they are told to


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """Dotted name of every module of the package -> its file and syntax tree."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = (path, ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    return found


def is_package(module: str) -> bool:
    return modules()[module][0].name == "__init__.py"


def layer(module: str) -> int:
    """Height of a module: 0 for the modules of the root, then the position in LAYERS, counted from 1."""
    parts = module.split(".")
    if module == f"{PACKAGE}.__main__":
        return 1 + LAYERS.index("cli")
    if len(parts) > 1 and parts[1] in LAYERS:
        return 1 + LAYERS.index(parts[1])
    if len(parts) == 2 or parts[1] in BOTTOM_PACKAGES:
        return ROOT_MODULES
    raise AssertionError(f"{module} belongs to no layer: add its package to LAYERS")


def base_of(module: str, node: ast.ImportFrom) -> str:
    """The absolute name of what stands between `from` and `import`."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    up = node.level - is_package(module)
    parents = parts[: len(parts) - up]
    return ".".join([*parents, node.module] if node.module else parents)


def imported(module: str, tree: ast.Module) -> Iterator[str]:
    """Absolute names of everything a module imports, wherever the import stands, also by a literal name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = base_of(module, node)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function == "import_module" and isinstance(node.args[0].value, str):
                yield node.args[0].value


def target_module(name: str) -> str | None:
    """The module of this package an imported name lives in; the managed classes that the root offers live in api."""
    if name == PACKAGE or not name.startswith(f"{PACKAGE}."):
        return None
    if name in modules():
        return name
    parent = name.rpartition(".")[0]
    if parent == PACKAGE:
        second = name.split(".")[1]
        if second in LAYERS or second in BOTTOM_PACKAGES:
            return name
        return None if second == "__version__" else f"{PACKAGE}.api"
    return parent


def upward_imports(module: str, tree: ast.Module) -> list[str]:
    targets = {target for name in imported(module, tree) if (target := target_module(name))}
    return [f"{module} -> {target}" for target in sorted(targets) if layer(target) > layer(module)]


def test_imports_point_downwards() -> None:
    offending = []
    for module, (_, tree) in modules().items():
        if module != PACKAGE:  # the root offers the managed classes, lazily
            offending += upward_imports(module, tree)
    assert not offending, "imports that point upwards:\n" + "\n".join(offending)


def run_on_import(tree: ast.Module) -> ast.Module:
    """What of a module runs when it is imported: nothing in functions, nor for type checkers alone."""

    class Rest(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.If | None:
            return None if ast.unparse(node.test) == "TYPE_CHECKING" else node

    return ast.Module([found for node in tree.body if (found := Rest().visit(node))], [])


def needs(module: str, tree: ast.Module) -> set[str]:
    """The modules that run when one is imported, the packages around them too, but for those it lies in itself."""
    targets = {target for name in imported(module, run_on_import(tree)) if (target := target_module(name))}
    parents = {target.rsplit(".", up)[0] for target in targets for up in range(1, target.count("."))}
    return {target for target in targets | parents if not module.startswith(f"{target}.")} - {module}


def circles(edges: dict[str, set[str]]) -> list[str]:
    """What is left of a graph once everything that leads to no circle is taken away."""
    left = {name: targets & edges.keys() for name, targets in edges.items()}
    while ends := [name for name, targets in left.items() if not targets]:
        left = {name: targets.difference(ends) for name, targets in left.items() if name not in ends}
    return sorted(left)


def test_no_imports_in_a_circle() -> None:
    """Such a circle works or fails with the module that a program happens to import first."""
    found = circles({name: needs(name, tree) for name, (_, tree) in modules().items() if name != PACKAGE})
    assert not found, "modules that lie on a circle of imports, or need one that does:\n" + "\n".join(found)


def test_the_search_finds_circles() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}) == ["a", "b", "c", "d"]
    tree = ast.parse("from rl_training.models import layers\ndef f():\n    import rl_training.data.batch")
    assert needs(f"{PACKAGE}.models.values", tree) == {f"{PACKAGE}.models.layers"}
    assert f"{PACKAGE}.models" in needs(f"{PACKAGE}.errors", tree)


@pytest.mark.parametrize(
    ("code", "target"),
    [
        ("import rl_training.data", "data"),
        ("from rl_training.cli.main import main", "cli.main"),
        ("from .api import CQL", "api"),
        ("from . import runtime", "runtime"),
        ("def f():\n    from rl_training.experiment import registry", "experiment.registry"),
        ("from rl_training import CQL", "api"),
        ("import importlib\nimportlib.import_module('rl_training.models')", "models"),
    ],
)
def test_the_search_finds_each_form_of_import(code: str, target: str) -> None:
    found = upward_imports(f"{PACKAGE}.errors", ast.parse(code))
    package = f"{PACKAGE}.{target.split('.')[0]}"  # the module itself where it exists, else its package
    assert found in ([f"{PACKAGE}.errors -> {PACKAGE}.{target}"], [f"{PACKAGE}.errors -> {package}"])


def test_the_search_lets_downward_imports_pass() -> None:
    code = "import torch\nimport rl_training\nfrom rl_training import __version__, streams\nfrom .streams import x"
    assert upward_imports(f"{PACKAGE}.errors", ast.parse(code)) == []


def aliases(module: str, tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: `np` -> `numpy`, `load` -> `torch.load`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                (a.asname or a.name.split(".")[0]): (a.name if a.asname else a.name.split(".")[0]) for a in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            names |= {(a.asname or a.name): f"{base_of(module, node)}.{a.name}" for a in node.names}
    return names


def dotted(node: ast.AST, known: dict[str, str]) -> str:
    """`np.lib.load` -> `numpy.lib.load`; an empty string for what is not a plain chain of names."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id) if isinstance(node.ctx, ast.Load) else ""
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value, known)):
        return f"{owner}.{node.attr}"
    return ""


def allows_pickle(call: ast.Call, function: str) -> bool:
    """Whether a call passes `allow_pickle` as anything but a literal False."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "allow_pickle"]
    if function == "numpy.load":
        values += call.args[2:3]
    if function == "numpy.lib.format.read_array":
        values += call.args[1:2]
    return any(not (isinstance(value, ast.Constant) and value.value is False) for value in values)


def forbidden_uses(module: str, relative: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of everything that could run what it reads."""
    known = aliases(module, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bases = [base_of(module, node)] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            names = [a.name for a in node.names] if isinstance(node, ast.ImportFrom) else []
            allowed = {"subprocess"} if relative in MAY_START_PROGRAMS else set()
            forbidden = {*FORBIDDEN_MODULES} - allowed
            yield from ((node.lineno, base) for base in bases if base.split(".")[0] in forbidden)
            full = [f"{base}.{name}" for base in bases for name in names]
            yield from ((node.lineno, name) for name in full if name in FORBIDDEN_NAMES)
        elif isinstance(node, ast.Name | ast.Attribute):
            name = dotted(node, known)
            by_name = name == "importlib.import_module" and relative not in MAY_IMPORT_BY_NAME
            if by_name or name in FORBIDDEN_NAMES or name in ("builtins", "__builtins__"):
                yield node.lineno, name
        elif isinstance(node, ast.Call):
            function = dotted(node.func, known)
            if allows_pickle(node, function):
                yield node.lineno, "allow_pickle"
            if function in READ_ARRAYS and any(keyword.arg is None for keyword in node.keywords):
                yield node.lineno, "**"


def test_nothing_runs_what_it_reads() -> None:
    offending = []
    for module, (path, tree) in modules().items():
        relative = path.relative_to(SOURCE).as_posix()
        offending += [f"{relative}:{line}: {what}" for line, what in forbidden_uses(module, relative, tree)]
    assert not offending, "forbidden in src:\n" + "\n".join(offending)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import pickle", "pickle"),
        ("def f():\n    from shelve import open", "shelve"),
        ("import torch as t\nt.load('x')", "torch.load"),
        ("from torch import load", "torch.load"),
        ("import yaml\nyaml.unsafe_load('x')", "yaml.unsafe_load"),
        ("import numpy as np\nnp.load('x', allow_pickle=True)", "allow_pickle"),
        ("import numpy as np\nnp.load('x', None, True)", "allow_pickle"),
        ("eval('1')", "eval"),
        ("run = exec", "exec"),
        ("compile('1', 'f', 'eval')", "compile"),
        ("__import__('os')", "__import__"),
        ("from importlib import import_module as i\ni('os')", "importlib.import_module"),
        ("import importlib.util as u\nu.spec_from_file_location('a', 'b')", "importlib.util.spec_from_file_location"),
        ("import subprocess", "subprocess"),
        ("from subprocess import run", "subprocess"),
        ("import os\nos.system('ls')", "os.system"),
        ("from os import popen as p\np('ls')", "os.popen"),
        ("import os\nos.execv('a', [])", "os.execv"),
        ("import marshal", "marshal"),
        ("import joblib.numpy_pickle", "joblib.numpy_pickle"),
        ("import dill as d", "dill"),
        ("import yaml\nyaml.load('x', Loader=yaml.UnsafeLoader)", "yaml.UnsafeLoader"),
        ("from yaml import FullLoader", "yaml.FullLoader"),
        ("import yaml\nclass L(yaml.Loader): ...", "yaml.Loader"),
        ("import numpy as np\nnp.lib.format.read_array(f, True)", "allow_pickle"),
        ("import numpy as np\nnp.lib.format.read_array(f, allow_pickle=flag)", "allow_pickle"),
        ("import numpy as np\nnp.load('x', **{'allow_pickle': True})", "**"),
        ("import builtins\nbuiltins.exec('1')", "builtins.exec"),
        ("getattr(builtins, 'ev' + 'al')", "builtins"),
        ("import torch\ntorch.hub.load('a', 'b')", "torch.hub.load"),
    ],
)
def test_the_search_finds_each_forbidden_form(code: str, found: str) -> None:
    assert found in [what for _, what in forbidden_uses(f"{PACKAGE}.errors", "errors.py", ast.parse(code))]


def test_the_search_lets_harmless_forms_pass() -> None:
    code = (
        "import re, torch, yaml, importlib\nimport numpy as np\n"
        "model.eval()\ntorch.compile(f)\nre.compile('x')\nyaml.safe_load('x')\n"
        "np.load('x', mmap_mode='r', allow_pickle=False)\nimportlib.import_module('os')\n"
    )
    assert list(forbidden_uses(f"{PACKAGE}.experiment.registry", "runtime/trainer.py", ast.parse(code))) == []


def test_no_module_is_too_long() -> None:
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, (path, _) in modules().items()}
    long = [f"{name}: {length} lines" for name, length in lengths.items() if length > MAX_MODULE_LINES]
    assert not long, f"modules over {MAX_MODULE_LINES} lines:\n" + "\n".join(long)


def test_no_function_is_too_long() -> None:
    long = []
    for module, (_, tree) in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    long.append(f"{module}.{node.name}: {length} lines")
    assert not long, f"functions over {MAX_FUNCTION_LINES} lines:\n" + "\n".join(long)


RUN_COMMAND = """
import sys
from rl_training.cli.main import main

try:
    code = main()
except SystemExit as stop:
    code = stop.code
assert not code, f"exit code {code}"
assert "torch" not in sys.modules, "torch was imported"
"""


RUN_REFUSED = RUN_COMMAND.replace("assert not code", "assert code == 2")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("init nofile.csv", "nofile.csv: no such file"),
        ("data check nofile.csv", "nofile.csv: no such file"),
        ("train -c nofile.yaml", "no file nofile.yaml"),
        ("resume nofile", "nofile: no such run"),
        ("evaluate nofile", "nofile: no such run"),
        ("export nofile", "nofile: no such run"),
        ("predict nofile --obs 1,2", "nofile: no such run"),
    ],
)
def test_a_path_where_nothing_lies_is_refused_without_torch(line: str, told: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_REFUSED, *line.split()], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert told in done.stderr


@pytest.mark.parametrize(("argument", "expected"), [("--help", "train"), ("algos", "cql"), ("runs", "run")])
def test_light_commands_do_not_import_torch(argument: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_COMMAND, argument],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
