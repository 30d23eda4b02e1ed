"""Elastic trainings with TensorFlow and Keras, and a test double of the launcher (elastic/launcher_double.py)."""

import pathlib
import sys

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "elastic"))
from jobs import DROPIN_PATH, events, start, wait_for_event  # noqa: E402,F401


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("loop", ["fit", "function"])
@pytest.mark.parametrize("peer", ["tensorflow", "tensorflow-keras3"])
def test_a_training_with_tensorflow_goes_on(start, peer, loop, replaces):
    python = REPOSITORY / "build/release/peers" / peer / "bin/python"
    if not python.exists():
        pytest.skip("tools/peers tensorflow was not run")
    launcher = start(3, "train_keras.py", replaces=replaces, python=str(python), PYTHONPATH=DROPIN_PATH, LOOP=loop,
                     FAULT="h1 1 5", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    codes = launcher.wait()
    hosts = ["h0", "h1", "h2"] if replaces else ["h0", "h2"]
    assert [codes[host] for host in hosts] == [0] * len(hosts), launcher.errors()
    assert [world["size"] for world in events(launcher, "world")["h0.0"]] == [3, len(hosts)]
    done = [line for lines in events(launcher, "done").values() for line in lines]
    assert len(done) == len(hosts) and len({tuple(end["weights"]) for end in done}) == 1, done
    assert {end["epoch"] for end in done} == {4} and done[0]["accuracy"] > 0.9, done


def test_a_graph_of_one_rank_runs_in_a_larger_world(start):
    python = REPOSITORY / "build/release/peers/tensorflow/bin/python"
    if not python.exists():
        pytest.skip("tools/peers tensorflow was not run")
    launcher = start(1, "train_graph.py", python=str(python), PYTHONPATH=DROPIN_PATH, TF_CPP_MIN_LOG_LEVEL="3",
                     CUDA_VISIBLE_DEVICES="-1")
    wait_for_event(launcher, "step", 1)
    launcher.resize(["h0", "h1"])
    codes = launcher.wait()
    assert codes == {"h0": 0, "h1": 0}, launcher.errors()
    steps = [(step["size"], step["average"]) for step in events(launcher, "step")["h0.0"]]
    assert set(steps) == {(1, 1.0), (2, 1.5)}, steps
