"""Train a run given as JSON and print what its memory was predicted to be and what it came to, in bytes.

Run in a process of its own: the most a process ever held cannot be taken back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rl_training.runtime import trainer as trainer_module
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.trainer import Trainer, trainer_for


def status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main() -> None:
    config = TrainConfig.parse(json.loads(sys.argv[1]))
    before: list[int] = []
    predict = trainer_module.predict

    def watched(*arguments: object, **options: object) -> object:
        needs = predict(*arguments, **options)  # type: ignore[arg-type]
        Path("/proc/self/clear_refs").write_text("5")  # the most it ever held starts anew
        before.append(status("VmRSS"))
        return needs

    trainer_module.predict = watched  # type: ignore[assignment]
    needs = []
    require = Trainer.require_memory

    def kept(self: Trainer, *arguments: object) -> object:
        needs.extend(require(self, *arguments))  # type: ignore[arg-type]
        return needs

    Trainer.require_memory = kept  # type: ignore[assignment, method-assign]
    trainer_for(config.algo)(config).train()
    print(json.dumps({"predicted": needs[0].total, "measured": status("VmHWM") - before[0]}))


if __name__ == "__main__":
    main()
