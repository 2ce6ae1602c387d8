"""Words in the names of columns, and the fields that they point to."""

from __future__ import annotations

NEXT = {"next", "new", "nxt", "succ", "successor", "prime", "following", "tp1"}
# Words of a field's columns. A single letter counts only where a name begins with it.
PLAIN = {
    "obs": {"obs", "ob", "observation", "observations", "state", "states", "s", "st", "feature", "features", "feat"},
    "actions": {"a", "act", "action", "actions", "u", "ctrl", "control", "controls", "cmd", "command", "torque"},
}
LIKELY = {
    "obs": {
        "sensor", "sensors", "pos", "position", "vel", "velocity", "speed", "angle", "theta", "omega", "qpos", "qvel",
        "joint", "joints", "x", "y", "z", "vx", "vy", "vz", "temp", "temperature", "pressure", "level", "height",
        "dist", "distance", "altitude", "airspeed", "heading",
        "yaw", "pitch", "roll", "acc", "accel", "gyro", "imu", "measurement", "cos",
        "sin", "proprio", "error", "flow", "rpm", "current", "humidity", "weight", "mass", "glucose", "bp", "hr",
        "spo2", "hp", "health", "battery", "fuel", "density", "concentration",
    },
    "actions": {
        "force", "throttle", "steer", "steering", "brake", "thrust", "dose", "setpoint", "motor", "valve", "voltage",
        "thruster", "torques", "accelerator", "aileron", "elevator", "rudder", "pedal",
        "insulin", "dosage", "heater", "fan",
    },
}  # fmt: skip
REWARD, LIKE_REWARD = (
    {"r", "rew", "reward", "rewards"},
    {"score", "scores", "gain", "utility", "payoff", "payout", "profit", "points", "revenue", "benefit", "bonus"},
)
COST = {"cost", "costs", "penalty", "loss"}
# Other words for what should be small, at the end of a longer one as well: `Energiekosten`. An error may be seen, too.
LIKE_COST = ("cost", "costs", "kosten", "penalty", "penalties", "strafe", "verbrauch", "consumption", "fehler", "error")
WHOLE_REWARD = {"total", "sum", "all", "overall"}
BESIDE_R = {"t", *WHOLE_REWARD}
FLAGS = {
    "truncations": {"truncated", "truncation", "truncations", "trunc", "cut", "timeout", "timeouts", "timelimit"},
    "terminations": {
        "terminal", "terminals", "terminated", "termination", "terminations", "crash", "crashed", "collision",
        "collided", "fell", "fallen", "failed", "failure", "dead", "died", "death",
    },
    "dones": {"d", "done", "dones", "end", "ended", "finished", "finish", "over", "last", "final"},
}  # fmt: skip
