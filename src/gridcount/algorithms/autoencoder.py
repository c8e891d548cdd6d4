"""A conditional variational autoencoder: a model of the actions in a log."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from gridcount.networks import MLP

LATENT_LOG_STD_RANGE = (-4.0, 15.0)  # as in BCQ's code, which the later ones with a VAE build on


class ConditionalVAE(eqx.Module):
    """A model of a log's actions: an encoder of (observation, action) to a Gaussian latent, and a decoder
    of (observation, latent)."""

    encoder: MLP
    decoder: MLP

    def __init__(
        self, observation_dim: int, action_dim: int, latent_dim: int, hidden: tuple[int, ...], key: Array
    ):
        encoder_key, decoder_key = jax.random.split(key)
        last_scale = hidden[-1] ** -0.5  # like every other layer
        self.encoder = MLP(
            (observation_dim + action_dim, *hidden, 2 * latent_dim), encoder_key, last_scale=last_scale
        )
        self.decoder = MLP(
            (observation_dim + latent_dim, *hidden, action_dim), decoder_key, last_scale=last_scale
        )

    @property
    def latent_dim(self) -> int:
        """Numbers in a latent."""
        return self.encoder.biases[-1].shape[-1] // 2

    def encode(self, observation: Array, action: Array) -> tuple[Array, Array]:
        """Mean and log-deviation of the latent."""
        mean, log_std = jnp.split(self.encoder(jnp.concatenate([observation, action], axis=-1)), 2, axis=-1)
        return mean, jnp.clip(log_std, *LATENT_LOG_STD_RANGE)

    def decode_raw(self, observation: Array, latent: Array) -> Array:
        """The action before the tanh; latents may have further leading axes, over which observations
        repeat."""
        observation = jnp.broadcast_to(observation, (*latent.shape[:-1], observation.shape[-1]))
        x = jnp.concatenate([observation, latent], axis=-1)
        return self.decoder(x.reshape(-1, x.shape[-1])).reshape(*latent.shape[:-1], -1)

    def decode(self, observation: Array, latent: Array) -> Array:
        """The action, in (-1, 1)."""
        return jnp.tanh(self.decode_raw(observation, latent))

    def __call__(self, observation: Array, action: Array, key: Array) -> tuple[Array, Array, Array]:
        """The action decoded from a sampled latent, and the latent's mean and log-deviation."""
        mean, log_std = self.encode(observation, action)
        return (
            self.decode(observation, mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)),
            mean,
            log_std,
        )
