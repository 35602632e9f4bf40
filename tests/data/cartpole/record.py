#!/usr/bin/env python3
"""Records CartPole-v1 episodes of the real Gymnasium package for the replay test of examples/train_policy.

    python3 -m venv VENV && VENV/bin/pip install gymnasium numpy
    VENV/bin/python tests/data/cartpole/record.py > tests/data/cartpole/trajectories.txt

Lines: `episode NAME SEED x x_dot theta theta_dot` (the initial state, 64-bit patterns in hex), then one line a step,
`ACTION o0 o1 o2 o3 END` (the float32 observation's 32-bit patterns; END is `-`, `terminated` or `truncated`), then
`final x x_dot theta theta_dot` (the float64 state after the last step).

numpy's vectorised sin and cos differ from libm's in the last bit on some processors, so they are switched off.
"""
import os
import struct
import sys

FEATURES = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4 AVX2 FMA3 X86_V3"


def usable_features():
    """Those names this numpy knows and dispatches on: it refuses to start with others."""
    from numpy._core._multiarray_umath import __cpu_dispatch__

    return " ".join(name for name in FEATURES.split() if name in __cpu_dispatch__)


if "MOBULA_RECORDING" not in os.environ:
    environment = dict(os.environ, MOBULA_RECORDING="1", NPY_DISABLE_CPU_FEATURES=usable_features())
    os.execve(sys.executable, [sys.executable] + sys.argv, environment)

import gymnasium
import numpy


def bits64(values):
    return " ".join("%016x" % struct.unpack("<Q", struct.pack("<d", v))[0] for v in values)


def bits32(values):
    return " ".join("%08x" % struct.unpack("<I", struct.pack("<f", v))[0] for v in values)


def random_action(generator, _state):
    return int(generator.integers(2))


def right(_generator, _state):
    return 1


def balance(_generator, state):
    """Keeps the pole up and the cart near the middle: lives until the cap."""
    return int(0.1 * state[0] + 0.3 * state[1] + 2 * state[2] + state[3] > 0)


def drift(_generator, state):
    """Keeps the pole up with a lean, so that the cart runs out of the track."""
    return int(state[2] + 0.3 * state[3] > -0.03)


EPISODES = [
    *[("random", seed, random_action) for seed in range(6)],
    *[("right", seed, right) for seed in (6, 7)],
    *[("drift", seed, drift) for seed in (8, 9)],
    *[("balance", seed, balance) for seed in (10, 11)],
]


def record(name, seed, controller):
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=seed)
    generator = numpy.random.default_rng(seed)
    print("episode", name, seed, bits64(env.unwrapped.state))
    steps, end = 0, "-"
    while end == "-":
        action = controller(generator, env.unwrapped.state)
        observation, reward, terminated, truncated, _ = env.step(action)
        assert reward == 1.0
        end = "terminated" if terminated else "truncated" if truncated else "-"
        print(action, bits32(observation), end)
        steps += 1
    print("final", bits64(env.unwrapped.state))
    print(name, seed, steps, end, env.unwrapped.state, file=sys.stderr)


print("# gymnasium %s, numpy %s, CartPole-v1" % (gymnasium.__version__, numpy.__version__))
for episode in EPISODES:
    record(*episode)
