"""From NumPy arrays to a policy: a heater whose log keeps a room near 21 degrees, badly.

Run it with: python examples/arrays_to_policy.py
"""

import numpy as np

import gridcount as gc

EPISODES, STEPS = 60, 50
rng = np.random.default_rng(0)

# The log: one row per step. The controller turns the heater up when it is cold, and adds noise.
inside, outside = rng.normal(18, 3, EPISODES), rng.normal(5, 4, EPISODES)
rows = []
for step in range(STEPS):
    power = np.clip(50 + 8 * (21 - inside) + rng.normal(0, 25, EPISODES), 0, 100)  # per cent
    observation = np.stack([inside, outside], axis=1)
    inside = inside + 0.04 * power - 0.1 * (inside - outside) + rng.normal(0, 0.1, EPISODES)
    rows.append((observation, power, -np.abs(inside - 21), np.full(EPISODES, step == STEPS - 1)))
observation, power, reward, last = (np.concatenate([np.asarray(step[i]) for step in rows]) for i in range(4))
order = np.argsort(
    np.tile(np.arange(EPISODES), STEPS), kind="stable"
)  # the rows of an episode must stand together, in time order

data = gc.Transitions.from_arrays(
    observation=observation[order],
    action=power[order],
    reward=reward[order],
    truncated=last[order],  # the episodes were cut off; none reached a final state
    action_low=0,
    action_high=100,
    observation_names=("inside", "outside"),
    action_names=("power",),
)
print(gc.check(data))

run = gc.train(data, updates=1000, evaluate_every=500, hidden=(64, 64), progress=False)
policy = run.policy()
for temperature in (15.0, 18.0, 21.0, 24.0):
    power, count = policy([temperature, 5.0])[0], policy.count([temperature, 5.0])
    print(
        f"{temperature:4.0f} degrees inside: {power:5.1f} per cent power; the log has it {count:,.0f} times"
    )
