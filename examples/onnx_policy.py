"""An exported policy with neither torch nor rl_training: python onnx_policy.py policy.onnx 0.1 0.2 0.3"""

import sys

import numpy as np
import onnxruntime

if len(sys.argv) < 3:
    print("usage: python onnx_policy.py policy.onnx NUMBER NUMBER …", file=sys.stderr)
    sys.exit(2)
policy = onnxruntime.InferenceSession(sys.argv[1])
obs = np.array([sys.argv[2:]], dtype=np.float32)  # [1, obs], as the environment gives it
(action,) = policy.run(["action"], {"obs": obs})
print(action[0].tolist())
