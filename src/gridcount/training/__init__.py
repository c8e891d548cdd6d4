"""The compiled loop all algorithms share, many seeds at once, checkpoints, logs."""
