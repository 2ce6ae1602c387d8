"""An exported policy with neither torch nor rl_training: python onnx_policy.py policy.onnx 0.1 0.2 0.3"""

import sys

import numpy as np
import onnxruntime

file, *numbers = sys.argv[1:]
policy = onnxruntime.InferenceSession(file)
obs = np.array([numbers], dtype=np.float32)  # [1, obs], as the environment gives it
(action,) = policy.run(["action"], {"obs": obs})
print(action[0].tolist())
