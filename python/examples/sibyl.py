"""Sibyl's idea in fifty lines: an agent learns by Q-learning which requests belong on the SSD.

Sibyl (Singh et al., ISCA 2022) has a small neural network. Here the figures of a request are rounded to a
table, so that Python alone is enough. Its six figures are those of `bimetal.Gym`: kind, size, place, room,
time since the last use, and number of uses.
"""

import random
from collections import defaultdict

import bimetal

#: Share of the difference that is learnt at a step, worth of the next step, share of trials.
RATE, DISCOUNT, TRIALS = 0.1, 0.9, 0.05


class Agent:
    def __init__(self, actions, seed):
        self.random = random.Random(seed)
        self.values = defaultdict(lambda: [0.0] * actions)

    def state(self, observation):
        write, size, cached, free, interval, uses = observation
        return int(write), int(size) // 2, int(cached * 2), int(free * 8), int(interval) // 4, min(int(uses), 3)

    def act(self, state):
        values = self.values[state]
        if self.random.random() < TRIALS:
            return self.random.randrange(len(values))
        return max(range(len(values)), key=values.__getitem__)

    def learn(self, state, action, reward, following):
        aim = reward + DISCOUNT * max(self.values[following])
        self.values[state][action] += RATE * (aim - self.values[state][action])


def play(env, agent, learns=True):
    """Plays an episode, and returns the simulation."""
    observation, _ = env.reset()
    state, ended = agent.state(observation), False
    while not ended:
        action = agent.act(state)
        observation, reward, ended, _, info = env.step(action)
        following = agent.state(observation)
        if learns:
            # Response times differ by orders of magnitude.
            agent.learn(state, action, -((-reward) ** 0.5), following)
        state = following
    return info["result"]


def main(requests=10_000, episodes=3, seed=1):
    trace = bimetal.Trace.sample().slice(0, requests)
    options = {"ssd_size": "16MiB", "set": {"mode": "maximized"}}
    agent = Agent(bimetal.Gym.ACTIONS, seed)
    with_agent = [play(bimetal.gym(trace, **options), agent) for _ in range(episodes)]
    alone = bimetal.simulate(trace, "smart-response", **options)
    return [run.response_time_ms.all.mean for run in with_agent], alone.response_time_ms.all.mean


if __name__ == "__main__":
    learnt, alone = main()
    print("mean response time of each episode, ms:", *(f"{mean:.2f}" for mean in learnt))
    print(f"smart-response without the agent, ms: {alone:.2f}")
