"""An episode as a moving picture: a GIF or an MP4 of what the environment draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.environments import make_env
from rl_training.errors import ConfigError, EnvironmentUnsupportedError
from rl_training.experiment.manager import LoadedPolicy
from rl_training.paths import folder_fault
from rl_training.validation import shortened

Frame = npt.NDArray[np.uint8]  # [height, width, 3]

SUFFIXES = (".gif", ".mp4")
_MOST_STEPS = 10_000
_GIF_FRAMES, _GIF_RATE = 300, 25.0  # of more, browsers stutter
_RATE = 30.0  # pictures per second, where the environment does not say


def check_video(path: Path) -> None:
    """Refuse a file that could not be written before anything is computed."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"--video {path}: must end in {' or '.join(SUFFIXES)}")
    if (fault := folder_fault(path.parent)) is not None:
        raise ConfigError(f"--video {path}: {fault}")
    try:
        if path.suffix.lower() == ".gif":
            import PIL.Image  # noqa: F401
        else:
            import imageio_ffmpeg

            imageio_ffmpeg.get_ffmpeg_exe()
    except ImportError as error:
        raise ConfigError(f"--video {path}: needs {error.name}: pip install 'rl-training[video]'") from None
    except RuntimeError:  # the package is there, but came without the program
        raise ConfigError(
            f"--video {path}: needs the program ffmpeg: install it (Debian: apt install ffmpeg; conda install ffmpeg),"
            " name it in IMAGEIO_FFMPEG_EXE, or write a .gif"
        ) from None


def record_episode(
    policy: LoadedPolicy, env_id: str | None, seed: int | None, episode_seed: int
) -> tuple[list[Frame], float]:
    """What the environment draws at every step of one episode of a seed's policy, and its pictures per second."""
    env_id = env_id or policy.checkpoint.config.env_id
    if env_id is None:
        raise ConfigError("env_id: this policy was trained without an environment; name one to film it in")
    env = make_env(env_id, render_mode="rgb_array")
    try:
        rate = float(env.metadata.get("render_fps") or _RATE)
        obs, _ = env.reset(seed=episode_seed)
        frames = [_drawn(env, env_id)]
        for _ in range(_MOST_STEPS):
            obs, _, terminated, truncated, _ = env.step(policy.predict(obs, seed=seed))
            frames.append(_drawn(env, env_id))
            if terminated or truncated:
                break
        return frames, rate
    finally:
        env.close()


def _drawn(env: Any, env_id: str) -> Frame:
    try:
        picture = np.asarray(env.render())
    except Exception as error:  # a missing display, driver or package: whatever the simulator's own libraries raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise EnvironmentUnsupportedError(f"environment {env_id!r} cannot draw here: {reason[:200]}") from error
    if picture.ndim != 3 or picture.shape[-1] != 3 or picture.dtype != np.uint8:
        raise EnvironmentUnsupportedError(f"environment {env_id!r} draws no pictures (render_mode rgb_array)")
    return picture


def write_video(path: Path, frames: Sequence[Frame], rate: float) -> None:
    """Write frames as the file's ending says; of a long GIF every n-th frame, at the same speed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".gif":
            _write_gif(path, frames, rate)
        else:
            _write_mp4(path, frames, rate)
    except OSError as error:
        reason = " ".join(str(error.strerror or error).split())  # ffmpeg's own words are many lines
        raise ConfigError(f"--video {path}: cannot be written ({shortened(reason, 200)})") from None


def _write_gif(path: Path, frames: Sequence[Frame], rate: float) -> None:
    from PIL import Image

    every = max(1, -(-len(frames) // _GIF_FRAMES), int(np.ceil(rate / _GIF_RATE)))
    first, *rest = (Image.fromarray(frame) for frame in frames[::every])
    first.save(path, save_all=True, append_images=rest, duration=round(1000.0 * every / rate), loop=0, optimize=True)


def _write_mp4(path: Path, frames: Sequence[Frame], rate: float) -> None:
    import imageio_ffmpeg

    height, width = frames[0].shape[:2]
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=rate, macro_block_size=2, quality=7)
    writer.send(None)
    try:
        for frame in frames:
            writer.send(np.ascontiguousarray(frame))
    finally:
        writer.close()
