"""Compiled programs are cached on disk, so that resuming, evaluating and repeating a run start faster."""

import os

import jax

from gridcount.files.cache import cache_directory


def keep_compiled() -> None:
    """Cache compiled programs on disk, unless the user configured JAX otherwise."""
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(cache_directory() / "compiled"))
    # the many small programs of a start take seconds, too
    least = float(os.environ.get("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", 0))
    jax.config.update("jax_compilation_cache_dir", folder)  # type: ignore[no-untyped-call]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)  # type: ignore[no-untyped-call]
