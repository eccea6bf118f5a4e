"""Random groups with every kind of extra input, and random settings."""

import random


def group(rng, number, *, width=3):
    """A group as a line of `sim estimate`."""
    lengths = [rng.randint(1, 9) for _ in range(rng.randint(2, 5))]

    def rows(draw):
        return [[draw() for _ in range(n)] for n in lengths]

    def logp():
        return -rng.expovariate(1.0)

    old = rows(logp)
    near = [[min(0.0, x + rng.gauss(0, 0.3)) for x in row] for row in old]
    rewards = [rng.choice([0, 1, 0.5, -1.25, rng.random()]) for _ in lengths]
    if rng.random() < 0.2:
        rewards = [rewards[0]] * len(rewards)
    if rng.random() < 0.2:
        rewards[rng.randrange(len(rewards) - 1)] = None
    reasoning = [rng.randint(1, n) for n in lengths]
    steps = [[[0, rng.random()]] + [[t, rng.random()] for t in range(1, n) if rng.random() < 0.4] for n in lengths]
    return {
        "id": number,
        "rewards": rewards,
        "logps": near,
        "old_logps": old,
        "ref_logps": rows(logp),
        "entropies": rows(rng.random),
        "values": rows(rng.random),
        "collisions": rows(lambda: rng.uniform(0.05, 1)),
        "steps": steps,
        "shifts": [[rng.random() for _ in range(r)] for r in reasoning],
        "saliencies": [[rng.random() for _ in range(r)] for r in reasoning],
        "teacher_logps": rows(logp),
        "sampler_logps": [[min(0.0, x + rng.gauss(0, 0.3)) for x in row] for row in old],
        "reward_parts": [[rng.random(), rng.random()] for _ in lengths],
        "hidden": [[[rng.gauss(0, 1) for _ in range(width)] for _ in range(n)] for n in lengths],
        "tokens": [[rng.randrange(3) for _ in range(n)] for n in lengths],
        "truncated": [rng.random() < 0.2 for _ in lengths],
        "process_rewards": rows(lambda: rng.gauss(0, 0.3)),
    }


def groups(seed, count):
    rng = random.Random(seed)
    return [group(rng, number) for number in range(count)]


def settings(rng, method):
    """Random values of about half of a method's settings, as Python values."""
    chosen = {}
    for setting in method.settings:
        # The side of the printed matrices bounds the length of a response, which has a test of its own.
        if rng.random() < 0.5 or setting.key == "matrix_length":
            continue
        if setting.choices:
            chosen[setting.key] = rng.choice(setting.choices)
        elif isinstance(setting.default, bool):
            chosen[setting.key] = rng.random() < 0.5
        else:
            low, high = setting.range
            low, high = max(low, -2.0), min(high, max(low, 0.0) + 3.0)
            if low <= high:
                whole = isinstance(setting.default, float) and setting.default > 1 and setting.default % 1 == 0
                chosen[setting.key] = rng.randint(int(low) + 1, int(low) + 3) if whole else rng.uniform(low, high)
    return chosen


def as_words(settings):
    """Settings in the form of the command line."""
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in settings.items()}
