"""What people type: `rl-training`."""
