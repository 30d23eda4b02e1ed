#!/usr/bin/python3
"""Draws results of benchmarks: bars of medians with whiskers from the smallest to the largest value, and lines where
there are several sizes, with their efficiency.

    bench/launch --plot launch.html
    bench/plot.py launch.json allreduce.json -o both.html
    build/release/bin/reduce_kernels --benchmark_format=json | bench/plot.py - -o kernels.svg
    bench/plot.py bench/results/2026-11-23-cpu2-mpi.md --table 1 -o mpi.svg

A FILE has what --json prints: one JSON object, or one a line, also of Google Benchmark. A FILE.md is a stored result, of
which --table chooses one table. OUT.html is a page, OUT.svg a picture. Neither needs another file or a script, and both
follow the reader's choice of dark or light.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import sys
from xml.sax.saxutils import escape as escape_text

WIDTH = 900
NAMES = 240      # width of the names of bars
VALUES = 200     # width of the numbers behind them
ROW = 24
LINES = 260      # height of a chart of lines
COLOURS = 8
UNITS = {"launch": "s", "mpi": "s", "jobs": "s", "elastic": "s", "output": "MB/s"}  # of benches that name no value
SUFFIXES = {"_us": "µs", "_ms": "ms", "_ns": "ns", "_s": "s", "seconds": "s", "_gbs": "GB/s", "mb": "MB",
            "per_cpu_second": "/CPU-s", "per_second": "/s"}
IGNORED = {"bench", "machine", "repetitions", "runs", "values", "hung", "context"}
SPREAD = {"median", "min", "max"}

STYLE = """
svg{--back:#fff;--text:#1a1a1a;--axis:#767676;--c0:#2b6cb0;--c1:#b45309;--c2:#1b7f4b;--c3:#b3261e;--c4:#7b3fa0;--c5:#0f766e;
--c6:#6b6b6b;--c7:#a21caf;background:var(--back);font:13px system-ui,sans-serif;max-width:100%;height:auto}
@media(prefers-color-scheme:dark){svg{--back:#16181c;--text:#e6e6e6;--axis:#9a9a9a;--c0:#6cb2f5;--c1:#f0a35e;--c2:#4cc38a;
--c3:#ff8a80;--c4:#cf9cf0;--c5:#5eead4;--c6:#a5a5a5;--c7:#f0abfc}}
text{fill:var(--text)}.title{font-weight:bold}.axis{stroke:var(--axis);fill:none}.line{fill:none;stroke-width:2}
""" + "".join(f".c{i}{{fill:var(--c{i});stroke:var(--c{i})}}" for i in range(COLOURS))
PAGE_STYLE = """
:root{color-scheme:light dark}body{background:#fff;color:#1a1a1a;font:14px/1.45 system-ui,sans-serif;max-width:940px;
margin:1.5rem auto;padding:0 1rem}@media(prefers-color-scheme:dark){body{background:#16181c;color:#e6e6e6}}
"""


class PlotError(Exception):
    """One sentence for the user."""


# Points, and how they are found in a result's JSON.

class Point:
    """One number of one program: its group ("4 × 4"), its name, the value's name ("step_ms"), median, min, max."""

    def __init__(self, group, name, value, median, low, high):
        self.group, self.name, self.value = group, name, value
        self.median, self.low, self.high = float(median), float(low), float(high)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def unit_of(value, bench):
    for suffix, unit in SUFFIXES.items():
        if value.endswith(suffix):
            return unit
    return "" if value else UNITS.get(bench, "")


def is_value(name):
    """Whether the name is that of a value, such as step_ms, and not that of a program."""
    return bool(re.fullmatch(r"[a-z0-9_]+", name)) and bool(unit_of(name, ""))


def point_at(path, median, low, high):
    value = path[-1] if path and is_value(path[-1]) else ""
    names = path[:-1] if value else path
    if len(names) > 1 and re.fullmatch(r"\d+", names[-1]):  # program, then bytes
        return Point((*names[:-2], names[-1]), names[-2], value, median, low, high)
    return Point(tuple(names[:-1]), names[-1] if names else value, value, median, low, high)


def points_of(found, path=()):
    """All points below `found`, in order."""
    if isinstance(found, list):
        rows = [row for row in found if isinstance(row, dict)]
        for key in (rows[0] if rows else {}):
            values = [row[key] for row in rows if is_number(row.get(key))]
            if values and is_value(key):
                yield point_at((*path, key), statistics.median(values), min(values), max(values))
    elif isinstance(found, dict) and SPREAD <= found.keys() and all(is_number(found[key]) for key in SPREAD):
        yield point_at(path, found["median"], found["min"], found["max"])
    elif isinstance(found, dict) and {"p50_us", "p99_us"} <= found.keys():
        yield point_at((*path, "p50_us"), found["p50_us"], found["p50_us"], found["p99_us"])
    elif isinstance(found, dict):
        for key, below in found.items():
            if key not in IGNORED:
                yield from points_of(below, path if key in ("results", "tables") else (*path, key))


def points_of_lines(objects):
    """Points of flat objects, one a line: muster_perf, agent_sim and the like. The first of these keys is the size."""
    for one in objects:
        size = next((key for key in ("bytes", "agents") if is_number(one.get(key))), None)
        words = [one[key] for key in ("op", "dtype", "redop", "algorithm", "job", "case", "row", "tree")
                 if isinstance(one.get(key), str)]
        for key, value in one.items():
            group = (str(one[size]),) if size else ()
            if is_number(value) and is_value(key):
                yield Point(group, " ".join(words) or key, key, value, value, value)
            elif isinstance(value, dict) and SPREAD <= value.keys():
                yield Point(group, " ".join(words), key, value["median"], value["min"], value["max"])


def points_of_google(benchmarks):
    times = {}
    for one in benchmarks:
        if one.get("run_type", "iteration") == "iteration" and is_number(one.get("real_time")):
            name = (one.get("run_name", one["name"]), one.get("time_unit", "ns"))
            times.setdefault(name, []).append(one["real_time"])
    for (name, unit), values in times.items():
        stem, _, size = name.rpartition("/")
        has_size = bool(stem) and size.isdigit()
        yield Point((size,) if has_size else (), stem if has_size else name, f"time_{unit}", statistics.median(values),
                    min(values), max(values))


class Result:
    def __init__(self, objects):
        first = objects[0]
        self.bench = str(first.get("bench") or ("benchmark" if "benchmarks" in first else "results"))
        self.facts = first.get("machine") if isinstance(first.get("machine"), dict) else {}
        if "benchmarks" in first:
            self.points = list(points_of_google(first["benchmarks"]))
        elif len(objects) == 1 and any(isinstance(value, (dict, list)) for value in first.values()):
            self.points = list(points_of(first))
        else:
            self.points = list(points_of_lines(objects))


def read(text, name):
    """The result that --json printed."""
    try:
        objects = [json.loads(text)]
    except ValueError:
        try:
            objects = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as why:
            raise PlotError(f"{name}: this is no JSON: {why}") from why
    if not objects or not all(isinstance(one, dict) for one in objects):
        raise PlotError(f"{name}: this is not what a benchmark prints with --json")
    result = Result(objects)
    if not result.points:
        raise PlotError(f"{name}: it holds no number that can be drawn")
    return result


# Tables of stored results.

SPREAD_TEXT = re.compile(r"([\d.,]+) \[([\d.,]+) ([\d.,]+)\]")  # median [min max]
NUMBER_TEXT = re.compile(r"([\d,]*\.?\d+(?:e[+-]\d+)?)(?: \(.*\))?")  # p50 (p99)
SIZE_TEXT = re.compile(r"(\d+)(?: ?([KMG])i?)?")


def tables_of(text):
    """The tables of a Markdown text: lists of rows, of which the first is the heading."""
    tables, rows = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif rows:
            tables.append([row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)])
            rows = []
    return tables


def numbers(*texts):
    return [float(text.replace(",", "")) for text in texts]


def points_of_table(heading, *rows):
    """A column "ms median [min max]" gives bars, named by the columns before it. A first column "bytes" gives lines, one
    for each other column of numbers."""
    spread = next((i for i, name in enumerate(heading) if name.endswith("median [min max]")), None)
    if spread is not None:
        for row in rows:
            found = SPREAD_TEXT.fullmatch(row[spread])
            if found:
                yield Point(tuple(row[:spread - 1]), row[spread - 1], "", *numbers(*found.groups()))
    elif heading[0] == "bytes":
        heading = [re.sub(r"( \S+)? \(p99\)$", "", name) for name in heading]
        for row in rows:
            number, unit = SIZE_TEXT.fullmatch(row[0]).groups()
            size = int(number) << {None: 0, "K": 10, "M": 20, "G": 30}[unit]
            for name, cell in zip(heading[1:], row[1:]):
                found = NUMBER_TEXT.fullmatch(cell)
                if found and "/" not in name:
                    yield Point((str(size),), name, "", *numbers(*[found[1]] * 3))


class StoredResult:
    """A table of a file in bench/results. `unit` is that of its heading, or else the one that is given."""

    def __init__(self, text, number, unit, name):
        tables = tables_of(text)
        if not 1 <= number <= len(tables):
            raise PlotError(f"{name}: it has {len(tables)} tables, and none with the number {number}")
        self.facts, self.points = {}, list(points_of_table(*tables[number - 1]))
        if not self.points:
            raise PlotError(f"{name}: table {number} holds no medians and no sizes that can be drawn")
        found = re.search(r"^# (?:bench/)?([^,:\n]*)", text, re.MULTILINE)
        self.bench = found[1] if found else pathlib.Path(name).stem
        spread = next((cell for cell in tables[number - 1][0] if cell.endswith("median [min max]")), "")
        self.unit = unit or spread.removesuffix("median [min max]").strip()


# Charts: bars for each group, and lines where the groups are sizes.

def size_of(group):
    """(what stays the same, the size, what the size counts) of the last word of a group; None if it is no size."""
    word = group[-1] if group else ""
    for pattern, same, size, counts in ((r"(\d+) × (\d+)", "× {1}", lambda a, b: a * b, "ranks"),
                                        (r"(\d+) on (\d+)", "on {1} hosts", lambda a, _: a, "ranks")):
        found = re.fullmatch(pattern, word)
        if found:
            return (*group[:-1], same.format(*found.groups())), size(*map(int, found.groups())), counts
    return (group[:-1], int(word), "size") if re.fullmatch(r"\d+", word) else None


def series_of(points):
    """{(value, what stays the same, what sizes count): {program: {size: point}}}, with two sizes or more each."""
    found = {}
    for point in points:
        size = size_of(point.group)
        if size is not None:
            found.setdefault((point.value, size[0], size[2]), {}).setdefault(point.name, {})[size[1]] = point
    return {key: lines for key, lines in found.items() if len({size for line in lines.values() for size in line}) > 1}


def bars_of(points):
    """{(group, value): [points]} of what has no lines over bytes, which are too many for bars."""
    found = {}
    for point in points:
        found.setdefault((point.group, point.value), []).append(point)
    lined = {(point.group, point.value) for (_, _, counts), lines in series_of(points).items() if counts == "size"
             for line in lines.values() for point in line.values()}
    return {key: bars for key, bars in found.items() if key not in lined}


def is_time(unit):
    return unit in ("ns", "µs", "ms", "s")


def efficiencies(line, counts, unit):
    """{size: efficiency} of one program, or {} for what is no time. Over ranks: the time of the fewest ranks divided by
    this time, since each rank does the same work. Over bytes and the like: size by time, as a share of the best."""
    if not is_time(unit) or any(point.median <= 0 for point in line.values()):
        return {}
    if counts == "ranks":
        first = line[min(line)].median
        return {size: first / point.median for size, point in line.items()}
    rates = {size: size / point.median for size, point in line.items()}
    best = max(rates.values())
    return {size: rate / best for size, rate in rates.items()} if best > 0 else {}


# SVG.

def shown(number):
    if number == 0 or 0.001 <= abs(number) < 1e6:
        return f"{number:.4g}" if abs(number) < 1000 else f"{number:,.0f}"
    return f"{number:.3g}"


def xml(text):
    """As text of XML, without the characters that it forbids."""
    allowed = re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", str(text))
    return escape_text(allowed, {'"': "&quot;"})


def text_at(x, y, text, css="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{xml(text)}</text>\n'


def shortened(text, characters):
    return text if len(text) <= characters else text[:characters - 1] + "…"


class Drawing:
    def __init__(self):
        self.body, self.height = "", 8

    def heading(self, text):
        self.height += 22
        self.body += text_at(4, self.height, text, "title")
        self.height += 8

    def bars(self, title, points, unit):
        self.heading(title)
        most = max(max(point.high, point.median) for point in points) or 1.0
        scale = (WIDTH - NAMES - VALUES) / most if most > 0 else 0.0
        for i, point in enumerate(points):
            y, width = self.height, max(point.median * scale, 1.0)
            numbers = f"{shown(point.median)} {unit} [{shown(point.low)} {shown(point.high)}]"
            low, high = NAMES + max(point.low, 0) * scale, NAMES + max(point.high, 0) * scale
            self.body += (
                f'<g><title>{xml(point.name)}: {xml(numbers)}</title>\n'
                + text_at(NAMES - 8, y + 16, shortened(point.name, 32), anchor="end")
                + f'<rect class="c{i % COLOURS}" fill-opacity="0.6" x="{NAMES}" y="{y + 4}" width="{width:.1f}" '
                f'height="{ROW - 8}"/>\n'
                + f'<path class="axis" d="M{low:.1f} {y + 12}H{high:.1f}M{low:.1f} {y + 7}v10M{high:.1f} {y + 7}v10"/>\n'
                + text_at(max(high, NAMES + width) + 8, y + 16, numbers) + "</g>\n")
            self.height += ROW

    def lines(self, title, lines, format_y, is_logarithmic):
        """`lines`: {name: {size: number}}. Sizes stand at equal distances."""
        self.heading(title)
        top, bottom, left, right = self.height + 16, self.height + LINES - 24, 70, WIDTH - NAMES
        sizes = sorted({size for line in lines.values() for size in line})
        numbers = [number for line in lines.values() for number in line.values()]
        is_logarithmic = is_logarithmic and min(numbers) > 0
        bend = math.log10 if is_logarithmic else float
        low, high = (bend(min(numbers)) if is_logarithmic else 0.0), bend(max(numbers))
        span = (high - low) or 1.0

        def place(size, number):
            return (left + (right - left) * sizes.index(size) / max(len(sizes) - 1, 1),
                    bottom - (bottom - top) * (bend(number) - low) / span)

        self.body += f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>\n'
        self.body += text_at(left - 6, top + 4, format_y(max(numbers)), anchor="end")
        self.body += text_at(left - 6, bottom, format_y(min(numbers) if is_logarithmic else 0), anchor="end")
        step = max(len(sizes) // 10, 1)
        for size in sizes[::step]:
            self.body += text_at(place(size, max(numbers))[0], bottom + 18, size_text(size), anchor="middle")
        for i, (name, line) in enumerate(lines.items()):
            css, points = f"c{i % COLOURS}", [(size, line[size], *place(size, line[size])) for size in sorted(line)]
            route = "L".join(f"{x:.1f} {y:.1f}" for _, _, x, y in points)
            self.body += f'<path class="{css} line" style="fill:none" d="M{route}"/>\n'
            for size, number, x, y in points:
                told = f"{name}, {size_text(size)}: {format_y(number)}"
                self.body += (f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{xml(told)}</title>'
                              "</circle>\n")
            self.body += f'<rect class="{css}" x="{right + 24}" y="{top + i * 18}" width="10" height="10"/>\n'
            self.body += text_at(right + 40, top + i * 18 + 10, shortened(name, 28))
        self.height += max(LINES, 18 * len(lines) + 24)

    def document(self, label):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{xml(label)}" '
                f'viewBox="0 0 {WIDTH} {self.height + 12}" width="{WIDTH}" height="{self.height + 12}">\n'
                f"<style>{STYLE}</style>\n{self.body}</svg>\n")


def size_text(size):
    for shift, unit in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size >> shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return str(size)


def titled(*parts):
    return ", ".join(part for part in parts if part)


def draw(result, drawing):
    def unit_for(value):
        return getattr(result, "unit", "") or unit_of(value, result.bench)

    for (group, value), points in bars_of(result.points).items():
        drawing.bars(titled(result.bench, *group, value), points, unit_for(value))
    for (value, same, counts), lines in series_of(result.points).items():
        unit, over = unit_for(value), "over ranks" if counts == "ranks" else "over size"
        medians = {name: {size: point.median for size, point in line.items()} for name, line in lines.items()}
        drawing.lines(titled(result.bench, *same, value, over), medians, lambda number: f"{shown(number)} {unit}",
                      counts == "size")
        shares = {name: efficiencies(line, counts, unit) for name, line in lines.items()}
        shares = {name: line for name, line in shares.items() if line}
        if shares:
            what = "time of the fewest ranks / time" if counts == "ranks" else "size / time, by the program's best"
            drawing.lines(titled(result.bench, *same, value, f"efficiency {over} ({what})"), shares,
                          lambda number: f"{100 * number:.0f} %", False)


def facts_of(result):
    facts = result.facts
    names = ("date", "commit", "tree", "cpus", "cpu", "kernel", "load")
    return titled(*(f"{name} {facts[name]}" for name in names if name in facts))


def picture(results):
    drawing = Drawing()
    for result in results:
        draw(result, drawing)
    return drawing.document("results of " + titled(*(result.bench for result in results)))


def page(results):
    title = titled(*dict.fromkeys(result.bench for result in results))
    text = ('<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" lang="en">\n<head><meta charset="utf-8"/>'
            f"<title>{xml(title)}</title><style>{PAGE_STYLE}</style></head>\n<body>\n<h1>{xml(title)}</h1>\n"
            "<p>Bars are medians; whiskers go from the smallest to the largest value, or to the 99th percentile where a "
            "bench gives no other.</p>\n")
    for result in results:
        text += f"<p>{xml(result.bench)}: {xml(facts_of(result))}</p>\n{picture([result])}"
    return text + "</body>\n</html>\n"


def is_name(path):
    return pathlib.Path(path).suffix in (".html", ".svg")


def write(results, path):
    path = pathlib.Path(path)
    if not is_name(path):
        raise PlotError(f"{path}: the name must end in .html or .svg")
    try:
        path.write_text(page(results) if path.suffix == ".html" else picture(results), encoding="utf-8")
    except OSError as why:
        raise PlotError(f"{path}: {why.strerror}") from why


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="what --json printed, or a stored result; - is standard input")
    parser.add_argument("--table", type=int, default=1, metavar="N", help="the table of a stored result, from 1 (1)")
    parser.add_argument("--unit", default="", help="of a stored result whose table names none")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="OUT.html or OUT.svg")
    options = parser.parse_args()
    try:
        results = []
        for name in options.files:
            text = sys.stdin.read() if name == "-" else pathlib.Path(name).read_text(encoding="utf-8")
            stored = name.endswith(".md")
            results.append(StoredResult(text, options.table, options.unit, name) if stored else read(text, name))
        write(results, options.output)
    except OSError as why:
        sys.exit(f"plot.py: {why.filename}: {why.strerror}")
    except PlotError as why:
        sys.exit(f"plot.py: {why}")


if __name__ == "__main__":
    main()
