"""Compiled programs are kept on disk, so that resuming, evaluating and repeating a run start at once."""

import os

import jax

from gridcount.data.cache import cache_directory


def keep_compiled() -> None:
    """Keep this process's compiled programs, where the user has not said otherwise."""
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(cache_directory() / "compiled"))
    jax.config.update("jax_compilation_cache_dir", folder)  # type: ignore[no-untyped-call]
