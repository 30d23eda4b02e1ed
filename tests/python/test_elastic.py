"""muster.elastic with real processes, and a test double of the launcher (elastic/launcher_double.py)."""

import pathlib
import random
import sys
import time

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "elastic"))
from jobs import DROPIN_PATH, events, start, wait_for_event  # noqa: E402,F401
from launcher_double import LauncherDouble  # noqa: E402


def undisturbed(steps=40):
    """The weights after the training on one rank."""
    numbers = np.random.default_rng(7)
    samples = numbers.normal(size=(1200, 20))
    classes = (samples @ numbers.normal(size=20) > 0).astype(float)
    weights = np.zeros(20)
    for _ in range(steps):
        weights -= 2.0 / 1200 * samples.T @ (1 / (1 + np.exp(-samples @ weights)) - classes)
    return weights


def check_survivors(launcher, survivors, sizes):
    """All `survivors` have finished, with the model of an undisturbed training, and each in the process of before."""
    codes = launcher.wait()
    assert {host: codes[host] for host in survivors} == dict.fromkeys(survivors, 0), launcher.errors()
    done = events(launcher, "done")
    for host in survivors:
        worlds = events(launcher, "world")[f"{host}.0"]
        assert [world["size"] for world in worlds] == sizes
        [end] = done[f"{host}.0"]
        assert len({line["process"] for line in [*worlds, end]}) == 1
        assert end["step"] == len(end["sizes"]) == 40, "a step was lost, or counted twice"
        np.testing.assert_allclose(end["weights"], undisturbed(), rtol=1e-9)
        assert end["accuracy"] > 0.95
    return done


def test_nothing_happens(start):
    check_survivors(start(3), ["h0", "h1", "h2"], [3])


@pytest.mark.parametrize("are_apart", [False, True])
@pytest.mark.parametrize("victim", [0, 2, 3])
def test_a_killed_rank_costs_no_step(start, victim, are_apart):
    launcher = start(4, FAULT=f"kill h{victim} 7", are_apart=are_apart)
    survivors = [f"h{i}" for i in range(4) if i != victim]
    done = check_survivors(launcher, survivors, [4, 3])
    assert done[f"{survivors[0]}.0"][0]["sizes"] == 7 * [4] + 33 * [3]
    [killed] = events(launcher, "kill")[f"h{victim}.0"]
    back = [lines[-1]["time"] - killed["time"] for lines in events(launcher, "collective").values() if len(lines) > 1]
    print(f"from kill to the first collective of the next world: {1000 * max(back):.0f} ms")
    assert max(back) < 3
    assert [line["size"] for line in events(launcher, "reset")[f"{survivors[0]}.0"]] == [3]


@pytest.mark.parametrize("victim", [0, 2])
def test_a_child_of_a_killed_rank_does_not_delay_the_others(start, victim):
    launcher = start(4, FAULT=f"orphan h{victim} 7")
    survivors = [f"h{i}" for i in range(4) if i != victim]
    check_survivors(launcher, survivors, [4, 3])
    [killed] = events(launcher, "orphan")[f"h{victim}.0"]
    back = [lines[-1]["time"] - killed["time"] for lines in events(launcher, "collective").values() if len(lines) > 1]
    print(f"from kill to the first collective of the next world: {1000 * max(back):.0f} ms")
    assert max(back) < 3


@pytest.mark.parametrize("are_apart", [False, True])
def test_two_die_at_once(start, are_apart):
    launcher = start(4, FAULT="kill h1 5;kill h2 5", are_apart=are_apart)
    worlds = events(launcher, "world") if launcher.wait() else {}
    done = events(launcher, "done")
    assert set(done) == {"h0.0", "h3.0"}, launcher.errors()
    assert worlds["h0.0"][-1]["size"] == 2
    for [end] in done.values():
        assert end["step"] == len(end["sizes"]) == 40
        np.testing.assert_allclose(end["weights"], undisturbed(), rtol=1e-9)


def test_an_exception_ends_its_own_rank(start):
    launcher = start(3, FAULT="raise h1 9")
    check_survivors(launcher, ["h0", "h2"], [3, 2])
    assert launcher.exits["h1"] == 1
    assert "the script of this rank has an error" in launcher.errors()["h1.0.err"]


def test_grows_from_two_to_four(start):
    launcher = start(2, PAUSE="0.05")
    wait_for_event(launcher, "collective", 2)
    launcher.resize(["h0", "h1", "h2", "h3"])
    check_survivors(launcher, ["h0", "h1"], [2, 4])
    done = events(launcher, "done")
    assert set(done) == {"h0.0", "h1.0", "h2.1", "h3.1"}
    for name in ("h2.1", "h3.1"):
        [world] = events(launcher, "world")[name]
        assert 0 < world["step"] < 40, "a new rank begins where the others are"
        np.testing.assert_allclose(done[name][0]["weights"], undisturbed(), rtol=1e-9)


@pytest.mark.parametrize("res", [1, 3])
def test_a_removed_rank_leaves_in_order(start, res):
    launcher = start(3, PAUSE="0.05")
    wait_for_event(launcher, "collective", 3)
    launcher.resize(["h0", "h2"], res)
    check_survivors(launcher, ["h0", "h2"], [3, 2])
    assert launcher.exits["h1"] == 1
    assert launcher.errors()["h1.0.err"].strip().endswith("h1[0] has been removed from elastic job")


def test_removal_and_addition_at_once_do_not_deadlock(start):
    # With Horovod, survivors of a pure removal (res 1) skip the synchronization, for which a new rank then waits.
    launcher = start(2, PAUSE="0.05")
    wait_for_event(launcher, "collective", 2)
    launcher.resize(["h0", "h5"], res=1)
    check_survivors(launcher, ["h0"], [2, 2])
    assert set(events(launcher, "done")) == {"h0.0", "h5.1"}


@pytest.mark.parametrize("step", ["arrived", "publish", "formed", "shutdown"])
@pytest.mark.parametrize("victim, are_apart", [(0, False), (0, True), (1, True), (2, False)])
def test_a_rank_dies_while_the_others_join_the_next_world(start, step, victim, are_apart):
    if step == "publish" and victim != 0:
        step = "find"
    # h3 dies in the first world, and the victim on the way to the second one.
    fault = f"kill h3 5;{step} h{victim} {0 if step == 'shutdown' else 1}"
    launcher = start(4, FAULT=fault, are_apart=are_apart)
    codes = launcher.wait()
    assert events(launcher, step), launcher.errors()
    survivors = [host for host in ("h0", "h1", "h2") if host != f"h{victim}"]
    assert [codes[host] for host in survivors] == [0, 0], launcher.errors()
    for host in survivors:
        [end] = events(launcher, "done")[f"{host}.0"]
        assert end["step"] == len(end["sizes"]) == 40 and end["sizes"][-1] == 2
        np.testing.assert_allclose(end["weights"], undisturbed(), rtol=1e-9)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_launcher_that_reports_no_deaths_costs_the_time_limit(start, victim):
    launcher = start(3, reports_over=False, FAULT=f"kill h2 5;arrived h{victim} 1", HOROVOD_GLOO_TIMEOUT_SECONDS="2")
    codes = launcher.wait()
    survivor = f"h{1 - victim}"
    assert codes[survivor] == 0, launcher.errors()
    assert events(launcher, "done")[f"{survivor}.0"][0]["sizes"][-1] == 1


def stable(launcher, hosts):
    """Waits until all `hosts` have taken a step in the world in force. Returns False if the training is over first."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with launcher.changed:
            logs = [launcher.logs[host] for host in hosts if host in launcher.logs]
            processes = [launcher.processes[host] for host in hosts]
        if events(launcher, "done"):
            return False
        steps = [events(launcher, "collective").get(log, [{}])[-1] for log in logs]
        if [step.get("size") for step in steps] == [len(hosts)] * len(hosts) and not any(
                process.poll() is not None for process in processes):
            return True
        time.sleep(0.01)
    raise AssertionError(launcher.errors())


def kill(launcher, host):
    """Kills the process of this host. It has ended when this returns, so that stable() does not count it."""
    process = launcher.processes[host]
    process.kill()
    process.wait()


@pytest.mark.parametrize("are_apart", [False, True])
def test_random_kills_cost_no_step(start, are_apart):
    launcher = start(3, replaces=True, are_apart=are_apart, PAUSE="0.01", STEPS="400")
    dice = random.Random(5 + are_apart)
    hosts, kills = ["h0", "h1", "h2"], 0
    # One rank, the oldest, has the state at any time. The others are killed at any moment, also while they join.
    while kills < 14 and stable(launcher, hosts):
        oldest = launcher.hosts[0]
        for _ in range(dice.choice([1, 2, 3])):
            kill(launcher, dice.choice([host for host in hosts if host != oldest]))
            kills += 1
            time.sleep(dice.uniform(0, 0.4))
        if dice.random() < 0.5 and stable(launcher, hosts):
            kill(launcher, oldest)
            kills += 1
    codes = launcher.wait()
    assert codes == dict.fromkeys(hosts, 0), launcher.errors()
    done = [line for lines in events(launcher, "done").values() for line in lines]
    assert len(done) == 3 and launcher.generation >= 5
    for end in done:
        assert end["step"] == len(end["sizes"]) == 400, "a step was lost, or counted twice"
        np.testing.assert_allclose(end["weights"], undisturbed(400), rtol=1e-9)
    print(f"{kills} kills, {launcher.generation} changes of the world")


@pytest.mark.parametrize("are_apart", [False, True])
def test_200_generations_leave_nothing_behind(start, are_apart):
    launcher = start(3, "generations.py", replaces=True, are_apart=are_apart, WORLDS="200")
    codes = launcher.wait(200)
    assert codes == {"h0": 0, "h1": 0, "h2": 0}, launcher.errors()
    for host in ("h0", "h1"):
        worlds = events(launcher, "world")[f"{host}.0"]
        assert len(worlds) >= 200 and {world["size"] for world in worlds} == {3}
        early, late = worlds[20], worlds[-1]
        assert late["threads"] <= early["threads"] and late["descriptors"] <= early["descriptors"], (early, late)
        assert late["resident"] < early["resident"] + (2 << 20), (early, late)


def accuracy_of_digits(launcher, hosts):
    """The accuracy that all `hosts` have reached, with the same model."""
    codes = launcher.wait()
    assert [codes[host] for host in hosts] == [0] * len(hosts), launcher.errors()
    done = [line for lines in events(launcher, "done").values() for line in lines]
    assert len(done) == len(hosts) and len({tuple(end["weights"]) for end in done}) == 1, done
    for epochs in events(launcher, "epoch").values():
        for epoch in epochs:
            # An epoch has each of the 1400 samples once, but for what fills up the last batches of the ranks.
            assert 1400 <= epoch["seen"] <= 1400 + 2 * 4 * 16, epoch
            assert epoch["lr"] == pytest.approx(0.05 if epoch["epoch"] < 4 else 0.025)
    return done[0]["accuracy"]


def test_a_training_with_horovods_names_learns_as_much(start, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    (tmp_path / "calm").mkdir()
    launcher = start(4, "train_torch.py", FAULT="h2 1 7;h1 3 2", PYTHONPATH=DROPIN_PATH)
    hurt = accuracy_of_digits(launcher, ["h0", "h3"])
    assert [world["size"] for world in events(launcher, "world")["h0.0"]] == [4, 3, 2]
    launcher.folder = tmp_path / "calm"
    calm = LauncherDouble(launcher.program, launcher.folder, launcher.variables | {"FAULT": ""})
    with calm:
        calm.start(["h0", "h1", "h2", "h3"])
        undisturbed_accuracy = accuracy_of_digits(calm, ["h0", "h1", "h2", "h3"])
    print(f"accuracy with two killed ranks {hurt:.3f}, undisturbed {undisturbed_accuracy:.3f}")
    assert min(hurt, undisturbed_accuracy) > 0.9 and abs(hurt - undisturbed_accuracy) < 0.04
