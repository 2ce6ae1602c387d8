"""How long the fused kernels take by how they are launched, on the networks of a run with one seed and with many.

    python benchmarks/kernel_times.py [--shape critics] [--precision tf32] [--compile-only] [--output FILE]

Prints, for each network and each of forward, backward and weight gradient, the fastest launches; those in use are in
`models/fused_mlp_launches.py`. Needs a CUDA device. `--compile-only` fills Triton's cache, so that several processes
can compile at once before one measures.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rl_training.models import fused_mlp, fused_mlp_launches
from rl_training.models.fused_mlp import Layout
from rl_training.models.fused_mlp_launches import Launch


class Shape(NamedTuple):
    """Networks, how many of them share an input, and the rows of each one's batch."""

    networks: int
    copies: int
    batch: int
    layout: Layout


CRITIC, ACTOR, NORMED = Layout(23, 256, 1, 2, 0), Layout(17, 256, 6, 2, 0), Layout(23, 256, 1, 3, 2)
SHAPES = {
    "actor": Shape(1, 1, 256, ACTOR),
    "critics": Shape(2, 2, 256, CRITIC),
    "critics of 64": Shape(128, 2, 256, CRITIC),
    "actors of 64": Shape(64, 1, 256, ACTOR),
    "penalty": Shape(2, 2, 7_936, CRITIC),  # CQL's, 31 actions for each of 256 states
    "penalty of 16": Shape(32, 2, 7_936, CRITIC),
    "normed": Shape(2, 2, 1_024, NORMED),  # ReBRAC's
    "normed of 16": Shape(32, 2, 1_024, NORMED),
}
WHOLE = [
    *(
        Launch(16, columns, 32, warps, 3)
        for columns, warps in ((32, 2), (32, 4), (64, 4), (128, 4), (256, 4), (256, 8))
    ),
    *(Launch(32, columns, 32, 4, 3) for columns in (32, 64, 128, 256)),
    *(Launch(64, *how) for how in ((64, 32, 4, 3), (128, 32, 4, 3), (128, 32, 8, 3), (256, 32, 8, 3), (256, 32, 8, 2))),
    *(Launch(128, *how) for how in ((64, 32, 4, 3), (128, 32, 8, 3), (128, 32, 8, 2), (256, 32, 8, 3))),
]
STEPS = [Launch(rows, 0, 32, 4, 3) for rows in (8, 16, 32, 64)]
GRADIENTS = [
    Launch(tile, tile, step, 4, stages) for tile, step, stages in ((32, 32, 2), (64, 32, 2), (64, 32, 4), (64, 64, 3))
]


def microseconds(work: Callable[[], Any]) -> float:
    """Of one call, as part of a CUDA graph of twenty."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            work()
    best = float("inf")
    for _ in range(4):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) * 1_000 / 20)
    return best


def works(shape: Shape, precision: str) -> Iterator[tuple[str, dict[str, Any], Callable[[], Any]]]:
    """Every kernel and launch: its name, what is special of it, and the call under that launch."""
    kernels, layout, eps = fused_mlp_launches, shape.layout, 1e-6
    width = -(-(layout.last + layout.hidden * layout.outputs + layout.outputs) // 16) * 16  # as `StackedMLP` aligns it
    generator = torch.Generator("cuda").manual_seed(0)
    flat = torch.randn(shape.networks, width, device="cuda", generator=generator) * 0.05
    x = torch.randn(shape.networks // shape.copies, shape.batch, layout.inputs, device="cuda", generator=generator)
    calls = (x, flat, layout, eps, shape.copies)
    y, hidden, base = kernels.forward(*calls, True, precision, None)
    y = y[:, :, 0].contiguous()
    for how in (*_possible(shape), *STEPS):
        whole = how if how.columns else None
        for name, keep in (("forward", True), ("forward, not kept", False)):
            work = functools.partial(kernels.forward, *calls, keep, precision, whole)
            yield name, how._asdict(), _under(work, "between", lambda *_, how=how: how)
        work = functools.partial(kernels.backward, y, flat, hidden, base, layout, eps, True, precision, whole)
        yield "backward", how._asdict(), _under(work, "between", lambda *_, how=how: how)
    deltas, _, sums = kernels.backward(y, flat, hidden, base, layout, eps, False, precision, None)
    usual = fused_mlp.partial_sums(shape.networks, shape.batch)
    calls = (y, x, flat, hidden, deltas, sums, layout, shape.copies, precision)
    for how, parts in itertools.product(GRADIENTS, sorted({usual, max(1, usual // 2), usual * 2})):
        for wide in (False, True) if shape.batch % parts == 0 else (False,):
            work = functools.partial(kernels.weight_gradient, *calls, parts, wide)
            told = {"parts": parts, "wide": wide, **how._asdict()}
            yield "weight gradient", told, _under(work, "_WIDE_GRADIENT" if wide else "_GRADIENT", how)


def _possible(shape: Shape) -> list[Launch]:
    """Tiles that suit the number of rows; only two layers without a norm can be split by columns."""
    layout, many = shape.layout, shape.networks * shape.batch > 4_096
    splittable = layout.depth == 2 and not layout.norm
    return [
        how
        for how in WHOLE
        if (how.rows >= 32 if many else how.rows <= 64) and (splittable or how.columns == layout.hidden)
    ]


def _under(work: Callable[[], Any], name: str, how: Any) -> Callable[[], Any]:
    """The same, with a launch that the module holds by this name replaced."""

    def launched() -> Any:
        before = getattr(fused_mlp_launches, name)
        setattr(fused_mlp_launches, name, how)
        try:
            return work()
        finally:
            setattr(fused_mlp_launches, name, before)

    return launched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument("--precision", default="tf32", choices=("tf32", "ieee", "bf16"))
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--shown", type=int, default=3, help="launches shown of each kernel")
    parser.add_argument("--output", type=Path, help="also write all of it as JSON")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("highest" if options.precision == "ieee" else "high")
    rows: list[dict[str, Any]] = []
    for name in options.shape or SHAPES:
        found: list[dict[str, Any]] = []
        for kernel, how, work in works(SHAPES[name], options.precision):
            try:
                time = work() is None or options.compile_only or microseconds(work)
            except Exception as error:  # a launch that needs more than a processor has
                time, how = float("inf"), how | {"error": f"{type(error).__name__}: {error}"[:80]}
            found.append({"shape": name, "kernel": kernel, "us": time, **how})
        if options.compile_only:
            continue
        rows += found
        for kernel in dict.fromkeys(row["kernel"] for row in found):
            for row in sorted((row for row in found if row["kernel"] == kernel), key=lambda row: row["us"])[
                : options.shown
            ]:
                told = {key: value for key, value in row.items() if key not in ("shape", "kernel", "us", "error")}
                print(f"{name:<15} {kernel:<15} {row['us']:8.1f} us  {told}", flush=True)
    if options.output:
        about = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
        options.output.write_text(
            json.dumps({"machine": about, "precision": options.precision, "results": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
