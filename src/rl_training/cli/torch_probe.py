"""What torch can do here, as one JSON object. A script of its own: a broken torch takes down this process alone.

python torch_probe.py [compile]
"""

from __future__ import annotations

import json
import sys
from typing import Any


def facts() -> dict[str, Any]:
    """Version, build, threads, devices, and whether each of them multiplies matrices."""
    import torch

    devices = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return {
        "version": torch.__version__,
        "cuda_build": torch.version.cuda,
        "hip_build": torch.version.hip,
        "threads": torch.get_num_threads(),
        "devices": [_device(name) for name in devices],
    }


def _device(name: str) -> dict[str, Any]:
    import torch

    about: dict[str, Any] = {"device": name, "fault": None}
    try:
        ones = torch.ones(8, 8, device=name)
        if float((ones @ ones).sum()) != 512.0:
            about["fault"] = "a product of matrices is wrong"
        if name != "cpu":
            free, total = torch.cuda.mem_get_info(name)
            about |= {"name": torch.cuda.get_device_name(name), "free": free, "total": total}
    except Exception as error:  # whatever drivers raise
        about["fault"] = " ".join(str(error).split()) or type(error).__name__
    return about


def compiled() -> dict[str, Any]:
    """Whether `torch.compile` gives what eager mode gives."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    ones = torch.ones(8, 8, device=device)
    result = torch.compile(lambda x: (x @ x).relu().sum())(ones)
    return {"right": float(result) == 512.0}


if __name__ == "__main__":
    print(json.dumps(compiled() if sys.argv[1:] == ["compile"] else facts()))
