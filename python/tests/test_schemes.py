"""Schemes and admission rules that are classes of Python, and the environment of agents."""

import runpy

import bimetal
import pytest
from conftest import REPOSITORY

OPTIONS = {"ssd_size": "16MiB", "set": {"mode": "maximized"}}


def scheme_that_says(answer):
    class Saying(bimetal.Scheme):
        def place(self, request):
            return answer

    return Saying


def figures(result):
    return result.response_time_ms.to_dict(), {name: figure.write_bytes for name, figure in result.devices.items()}


def test_scheme_that_leaves_all_to_its_base_has_the_figures_of_the_base(office):
    part = office.slice(0, 4000)
    base = bimetal.simulate(part, "smart-response", **OPTIONS)
    assert figures(bimetal.simulate(part, scheme_that_says(None), **OPTIONS)) == figures(base)

    class Always(bimetal.Admission):
        def admit(self, request):
            return True

    admitted = bimetal.simulate(part, "smart-response", admission=Always, **OPTIONS)
    assert figures(admitted) == figures(base)
    assert admitted.options.director == "Always" and "director" not in base.options


def test_answers_decide_where_blocks_go(office):
    part = office.slice(0, 2000)
    ssd, hdd = {}, {}
    for answer in ("home", "slot", "both"):
        result = bimetal.simulate(part, scheme_that_says(answer), **OPTIONS)
        ssd[answer], hdd[answer] = (result.devices[role].write_bytes for role in ("ssd", "hdd"))
    assert ssd["home"] < 1 << 20 < min(ssd["slot"], ssd["both"])
    assert hdd["both"] == hdd["home"] > hdd["slot"]


def test_request_tells_the_state_of_the_cache(office):
    seen, ended = [], []

    class Watching(bimetal.Scheme):
        def place(self, request):
            seen.append(request)
            return "slot"

        def finished(self, number, response_ns):
            ended.append((number, response_ns))

    part = office.slice(0, 500)
    bimetal.simulate(part, Watching, merge=False, **OPTIONS)
    rows = part.frame().to_dict()
    kept = [at for at, op in enumerate(rows["op"]) if op in ("read", "write")]
    assert [request.number for request in seen] == kept
    assert [(request.op, request.lba, request.sectors) for request in seen] == [
        (rows["op"][at], rows["lba"][at], rows["sectors"][at]) for at in kept
    ]
    assert sorted(number for number, _ in ended) == list(range(500)) and min(time for _, time in ended) >= 0
    assert seen[0].cached_blocks == 0 and any(request.cached_blocks == request.blocks for request in seen)
    assert all(request.dirty_blocks <= request.cached_blocks <= request.blocks for request in seen)


def test_wrong_answers_and_schemes_are_refused(office):
    part = office.slice(0, 100)
    with pytest.raises(bimetal.Error, match="place returned 'ssd': expected 'home', 'slot', 'both' or None"):
        bimetal.simulate(part, scheme_that_says("ssd"), **OPTIONS)
    griffin = scheme_that_says("home")
    griffin.base = "griffin"
    with pytest.raises(bimetal.Error, match="griffin: takes no director 'Saying' of another program"):
        bimetal.simulate(part, griffin)
    with pytest.raises(bimetal.Error, match="leave admission= out"):
        bimetal.simulate(part, griffin, admission=bimetal.Admission)
    with pytest.raises(NotImplementedError):
        bimetal.simulate(part, bimetal.Scheme, **OPTIONS)


def played(env, act):
    _, info = env.reset()
    rewards, ended = [], False
    while not ended:
        _, reward, ended, _, info = env.step(act(info["request"]))
        rewards.append(reward)
    return rewards, info["result"]


def test_episode_has_the_rewards_and_figures_of_its_actions(office):
    # A reward is that of a request to the volume, which may be several of the trace merged.
    options = {"merge": False, **OPTIONS}
    env = bimetal.gym(office.slice(0, 1000), **options)
    rewards, result = played(env, lambda request: int(request.op == "write"))
    again, _ = played(env, lambda request: int(request.op == "write"))
    other, _ = played(env, lambda request: 0)
    assert rewards == again != other

    class Writes(bimetal.Scheme):
        def place(self, request):
            return "slot" if request.op == "write" else "home"

    alone = bimetal.simulate(office.slice(0, 1000), Writes, **options)
    assert figures(result) == figures(alone)
    # Copies through memory are no part of a reward.
    whole = result.response_time_ms.all.mean * len(rewards)
    assert -sum(rewards) == pytest.approx(whole, rel=0.02)


def test_episode_may_end_early_and_begin_again(office):
    env = bimetal.gym(office.slice(0, 300), **OPTIONS)
    first, _ = env.reset()
    env.step(1)
    assert env.reset()[0] == first
    env.close()
    with pytest.raises(bimetal.Error, match="no episode is under way"):
        env.step(1)
    with pytest.raises(bimetal.Error, match="unknown scheme"):
        bimetal.gym(office, "grifin").reset()


def test_agent_of_the_example_plays():
    example = runpy.run_path(str(REPOSITORY / "python" / "examples" / "sibyl.py"))
    learnt, alone = example["main"](requests=800, episodes=2)
    assert len(learnt) == 2 and min(*learnt, alone) > 0
