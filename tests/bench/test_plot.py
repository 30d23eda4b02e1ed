"""bench/plot.py and the --plot of benchmarks: right numbers as text, valid XML, names that are no markup."""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import beside  # noqa: E402
import plot  # noqa: E402

NAMESPACES = {"svg": "http://www.w3.org/2000/svg"}


def spread(median, low, high):
    return {"median": median, "min": low, "max": high, "values": [low, median, high]}


LAUNCH = {"bench": "launch", "machine": {"date": "2026-11-29", "cpus": 2}, "repetitions": 3, "results": {
    "4 × 1": {"hvdrun": spread(0.1, 0.09, 0.11), "<hydra> & \"co\"\x1b": spread(0.3, 0.2, 0.4)},
    "16 × 1": {"hvdrun": spread(0.4, 0.39, 0.5)},
    "4 × 4": {"hvdrun": spread(0.132, 0.12, 0.15)}}}
ENGINE = {"bench": "engine", "machine": {}, "ranks": 2, "results": {
    "C++": {"p50_us": spread(3.25, 3, 4), "many_p50_ms": spread(11.5, 11, 12)},
    "gloo": {"p50_us": spread(100, 90, 120), "many_p50_ms": spread(230, 220, 250)}}}
ALLREDUCE = {"bench": "allreduce", "machine": {}, "ranks": 2, "results": {
    "muster": {4: {"p50_us": 1.0, "p99_us": 2.0}, 1 << 20: {"p50_us": 1024.0, "p99_us": 2000.0}}}}
STORE = {"bench": "store", "machine": {}, "results": {"pipelined": {
    "muster": [{"per_cpu_second": 100.0, "p50_us": 9}, {"per_cpu_second": 300.0, "p50_us": 7}]}}}
GOOGLE = {"context": {}, "benchmarks": [
    {"name": f"sum/{size}", "run_name": f"sum/{size}", "run_type": "iteration", "real_time": size + i, "time_unit": "ns"}
    for size in (64, 128) for i in range(3)]}
PERF = [{"op": "allreduce", "dtype": "float", "ranks": 2, "bytes": size, "p50_us": size / 2, "p99_us": 9.0, "wrong": 0}
        for size in (8, 16)]


def read(*objects):
    return plot.read("\n".join(json.dumps(one) for one in objects), "x.json")


def drawn(result):
    """The picture's texts and titles; the picture is valid XML without scripts."""
    root = ElementTree.fromstring(plot.picture([result]))
    assert not [each for each in root.iter() if each.tag.endswith("script")]
    return [each.text for each in root.iter() if each.text and each.tag.split("}")[1] in ("text", "title")]


def points(result):
    return {(point.group, point.name, point.value): (point.median, point.low, point.high) for point in result.points}


def test_bars_have_median_and_whiskers_as_text():
    texts = drawn(read(LAUNCH))
    assert "hvdrun: 0.132 s [0.12 0.15]" in texts and "0.1 s [0.09 0.11]" in texts, texts
    assert "launch, 4 × 4" in texts


def test_names_are_escaped():
    assert '<hydra> & "co"\ufffd' in drawn(read(LAUNCH))
    assert "<hydra>" not in plot.picture([read(LAUNCH)])


def test_shapes_of_one_kind_are_lines_over_ranks():
    texts = drawn(read(LAUNCH))
    assert "hvdrun, 16: 0.4 s" in texts, texts
    assert "hvdrun, 16: 25 %" in texts, "the time of 4 ranks is a quarter of that of 16"
    assert not [text for text in texts if text.startswith("launch, × 4, over")], "4 × 4 has no other size"


def test_sizes_in_bytes_are_lines_and_no_bars():
    texts = drawn(read(ALLREDUCE))
    assert "muster, 1 Mi: 1,024 µs" in texts and "muster, 4: 1 µs" in texts, texts
    assert "muster, 1 Mi: 100 %" in texts, texts
    assert not [text for text in texts if "[" in text]


@pytest.mark.parametrize("result, expected", [
    (read(ENGINE), {((), "C++", "p50_us"): (3.25, 3, 4), ((), "gloo", "many_p50_ms"): (230, 220, 250)}),
    (read(STORE), {(("pipelined",), "muster", "per_cpu_second"): (200, 100, 300)}),
    (read(GOOGLE), {(("64",), "sum", "time_ns"): (65, 64, 66), (("128",), "sum", "time_ns"): (129, 128, 130)}),
    (read(*PERF), {(("8",), "allreduce float", "p50_us"): (4, 4, 4)}),
    (read({"row": "size", "tree": "this", "mb": spread(14, 13, 15)}, {"row": "cold", "tree": "this"}),
     {((), "size this", "mb"): (14, 13, 15)}),
], ids=["engine", "store", "Google Benchmark", "muster_perf", "build"])
def test_numbers_of_all_kinds_of_results(result, expected):
    found = points(result)
    for key, numbers in expected.items():
        assert found[key] == numbers, found


@pytest.mark.parametrize("text, part", [("{", "no JSON"), ("[1]", "not what"), ('{"bench": "x", "results": {}}', "no number")])
def test_what_is_no_result_is_refused(text, part):
    with pytest.raises(plot.PlotError, match=part):
        plot.read(text, "x.json")


def test_the_page_is_whole_and_valid(tmp_path):
    files = []
    for result in (LAUNCH, ENGINE, ALLREDUCE, STORE, GOOGLE):
        files.append(tmp_path / f"{len(files)}.json")
        files[-1].write_text(json.dumps(result))
    out = tmp_path / "all.html"
    subprocess.run([BENCH / "plot.py", *files, "-o", out], check=True)
    root = ElementTree.parse(out).getroot()
    assert len(root.findall(".//svg:svg", NAMESPACES)) == len(files)
    text = out.read_text()
    assert "prefers-color-scheme:dark" in text and "http://" not in text.replace("http://www.w3.org/", "")
    assert "launch: date 2026-11-29, cpus 2" in text


def test_mistakes_are_one_line(tmp_path):
    for arguments in (["none.json", "-o", "x.svg"], [__file__, "-o", "x.svg"]):
        done = subprocess.run([BENCH / "plot.py", *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 1 and done.stderr.startswith("plot.py: ") and done.stderr.count("\n") == 1, done


def test_benchmarks_draw_what_json_prints(tmp_path, capsys):
    options = argparse.Namespace(json=True, plot=str(tmp_path / "launch.svg"))
    assert beside.as_data(options, LAUNCH)
    assert json.loads(capsys.readouterr().out) == LAUNCH
    assert (tmp_path / "launch.svg").read_text() == plot.picture([read(LAUNCH)])
    assert not beside.as_data(argparse.Namespace(json=False, plot=""), LAUNCH)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("bench", ["launch", "allreduce", "store", "build"])
def test_a_wrong_name_is_refused_before_the_measurement(bench):
    done = subprocess.run([BENCH / bench, "--plot", "x.pdf"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "must end in .html or .svg" in done.stderr, done


STORED = """# bench/mpi, 2026-11-23, 2 CPUs

| ranks on hosts | launcher | ms median [min max] | of the MPI's own |
|---|---:|---|---|
| 8 on 2 | hvdrun | 367 [366 1,367] | 0.76 |
| 32 on 2 | hvdrun | 554.5 [424 684] | 0.94 |

| bytes | muster µs (p99) | floor | muster / best |
|---|---|---|---|
| 4 | 0.287 (0.395) | - | 0.41 |
| 64 Ki | 1.42e+04 (1.62e+04) | 7 | 0.36 |
"""


def test_tables_of_stored_results_are_drawn():
    spreads = plot.StoredResult(STORED, 1, "", "x.md")
    assert points(spreads) == {(("8 on 2",), "hvdrun", ""): (367, 366, 1367), (("32 on 2",), "hvdrun", ""): (554.5, 424, 684)}
    assert "hvdrun: 367 ms [366 1,367]" in drawn(spreads) and "mpi, 8 on 2" in drawn(spreads)
    sizes = plot.StoredResult(STORED, 2, "µs", "x.md")
    assert [(point.group, point.name, point.median) for point in sizes.points] == [
        (("4",), "muster", 0.287), (("65536",), "muster", 14200), (("65536",), "floor", 7)]
    assert "muster, 64 Ki: 14,200 µs" in drawn(sizes)


@pytest.mark.parametrize(("number", "why"), [(3, "it has 2 tables, and none with the number 3"), (0, "none with the number 0")])
def test_a_stored_result_without_that_table_is_refused(number, why):
    with pytest.raises(plot.PlotError, match=why):
        plot.StoredResult(STORED, number, "", "x.md")


def test_figures_of_the_documents_are_those_of_their_results(tmp_path):
    """docs/measured.md names the command of each figure."""
    root = BENCH.parent
    commands = re.findall(r"^    bench/plot\.py (.*) -o (docs/figures/\S+)$", (root / "docs/measured.md").read_text(), re.MULTILINE)
    assert {figure for _, figure in commands} == {f"docs/figures/{file.name}" for file in (root / "docs/figures").iterdir()}
    for words, figure in commands:
        made = tmp_path / "made.svg"
        subprocess.run([BENCH / "plot.py", *words.split(), "-o", made], cwd=root, check=True)
        assert made.read_bytes() == (root / figure).read_bytes(), f"{figure} is not what {words} draws now: draw it again"
