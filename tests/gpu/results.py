"""Turns what tests/gpu/run has measured into the file that is committed: results.py OUT.

OUT holds machine.json (machine.py), steps.jsonl (name, seconds, result) and results.jsonl (what the steps printed). Writes
OUT/<date>-<device>-collectives.md, and prints its tables. Every ratio is one to what the same run has measured as the
limit: a copy on the device for what moves memory there, pinned copies between host and device for what is staged.
"""

import json
import pathlib
import re
import sys

# What is wanted (bench/results/*-nogpu-collectives.md).
OF_COPY = 0.92          # packing: share of a copy's bandwidth
OF_TRAFFIC = 0.80       # the allreduce of 2 ranks on 1 GiB: share of the copy's bandwidth that its traffic reaches
LAUNCH_US = 10          # the host's time for one fused launch
GIB = 1 << 30
FASTER = 1              # packing and unpacking: than torch's fastest way
PEERS = ("torch_cat", "torch_foreach_copy", "torch_copy_each", "torch_foreach_copy_back", "memcpy_each")
PACKING = ("pack", "pack_scaled", "unpack_scaled", "pack_to_bfloat16", "unpack_of_bfloat16")
LINK = ("host_to_device", "device_to_host", "both_ways")
# What a line has to have for its table; one that lacks something is printed as it is.
KEYS = {**dict.fromkeys(("copy", *PACKING, *PEERS), ("model", "tensors", "bytes", "us", "gbs")),
        **dict.fromkeys(LINK, ("gbs",)),
        "allreduce_on_stream": ("path", "ranks", "bytes", "registered", "p50_us", "algbw_gbs"),
        "training_step": ("ranks", "compute_us", "allreduce_us", "apart_us", "step_us", "hidden", "saved"),
        "launch_of_161": ("us",), "fused_of_161": ("us",), "driver_doubt": ("question", "what", "answer"),
        "released": ("bytes", "hvdrun_s", "free_s", "said")}
NUMBERED = (("driver", "driver"), ("nvcc", "nvcc"), ("torch", "torch"), ("NCCL", "nccl"), ("Python", "python"), ("Linux", "kernel"))


def lines_of(path):
    """The objects in a file, one a line; lines that are none are left out, for a step may have been killed as it wrote."""
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict):
            found.append(one)
    return found


def device_name(machine):
    """h100 of "NVIDIA H100 80GB HBM3", rtx4090 of "NVIDIA GeForce RTX 4090"; nogpu."""
    words = [word for word in re.split(r"[\s-]+", machine.get("gpu", "")) if word not in ("NVIDIA", "GeForce", "Tesla", "")]
    if words and words[0] in ("RTX", "GTX", "Quadro"):
        words = ["".join(words[:2])]
    return re.sub(r"[^a-z0-9]", "", words[0].lower()) if words else "nogpu"


def size_name(count):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.4g} {unit}"
    return f"{count} B"


def table(header, rows, words=1):
    """A table of markdown; the first `words` columns are words, the others numbers."""
    if not rows:
        return ""
    cells = [header, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(width) if i < words else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))) + " |" for row in cells]
    rule = "|" + "|".join("-" * (width + 2) if i < words else "-" * (width + 1) + ":" for i, width in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def wanted(value, bound, at_least=True):
    """A ratio or time beside what is wanted of it."""
    met = value >= bound if at_least else value <= bound
    return f"{value:.2f} ({'≥' if at_least else '≤'} {bound:g}, {'met' if met else 'NOT MET'})"


def packing(measured):
    """One row for each model and way of packing, beside the copy and the best of torch's ways for the same tensors."""
    rows = []
    for model in dict.fromkeys(one["model"] for one in measured if "model" in one):
        of = {one["op"]: one for one in measured if one.get("model") == model}
        copy = of.get("copy", {}).get("gbs")
        peers = {way: [of[op]["us"] for op in PEERS if op in of and op.startswith("torch") and op.endswith("_back") == (way == "unpack")]
                 for way in ("pack", "unpack")}
        for op in ("copy", *PACKING, *PEERS):
            if op not in of:
                continue
            one = of[op]
            share = "-" if not copy or op == "copy" else f"{one['gbs'] / copy:.2f}"
            theirs = peers.get(op.split("_")[0])
            times = f"{min(theirs) / one['us']:.2f}" if theirs else "-"
            if op in ("pack", "pack_scaled", "unpack_scaled"):
                share = wanted(one["gbs"] / copy, OF_COPY) if copy else share
                times = wanted(min(theirs) / one["us"], FASTER) if theirs else times
            rows.append([model, op, one["tensors"], size_name(one["bytes"]), f"{one['us']:.1f}", f"{one['gbs']:.0f}", share, times])
    return table(["tensors of", "what", "tensors", "size", "µs", "GB/s", "of the copy", "× torch's fastest"], rows, 2)


def ceilings(measured):
    """GB/s of a copy on the device (read and written), of the largest that was measured, and of pinned copies to and from it."""
    copies = [one for one in measured if one["op"] == "copy"]
    ways = {one["op"]: one["gbs"] for one in measured if one["op"] in LINK}
    return (max(copies, key=lambda one: one["bytes"])["gbs"] if copies else None), ways


def share_of_limit(one, copy, ways):
    if one["path"] == "ipc" and ("of_copy" in one or (copy and "moved_gbs" in one)):
        share = one["of_copy"] if "of_copy" in one else one["moved_gbs"] / copy  # of the same size, in the same process
        # Other memory is copied to where ranks reach it, and back: three times the traffic.
        is_wanted = one["registered"] and one["ranks"] == 2 and one["bytes"] >= GIB
        return wanted(share, OF_TRAFFIC) if is_wanted else f"{share:.2f}"
    if one["path"] == "staged" and ways:
        # Every rank's bytes go down and come up again; both ways at once where that was measured, else one after the other.
        bytes_each_way = one["ranks"] * one["bytes"]
        at_best = 2 * bytes_each_way / ways["both_ways"] if "both_ways" in ways else \
            sum(bytes_each_way / gbs for gbs in ways.values())
        return f"{at_best / 1e3 / one['p50_us']:.2f}"
    return "-"


def allreduces(measured):
    copy, ways = ceilings(measured)
    rows = [[one["path"], "Muster's" if one["registered"] else "the program's", one["ranks"], size_name(one["bytes"]), f"{one['p50_us']:.1f}", f"{one['algbw_gbs']:.2f}",
             f"{one['moved_gbs']:.1f}" if "moved_gbs" in one else "-", share_of_limit(one, copy, ways)]
            for one in measured if one["op"] == "allreduce_on_stream"]
    text = table(["path", "memory", "ranks", "a rank's bytes", "p50 µs", "GB/s", "moved GB/s", "of the limit"], rows, 2)
    if text:
        text += "\nMuster's memory is that of `muster_device_buffer_alloc()`; tensors of torch are the program's.\n"
    limits = [f"a copy on the device {copy:.0f} GB/s, read and written"] if copy else []
    limits += [f"{op.replace('_', ' ')} {gbs:.1f} GB/s, pinned" for op, gbs in ways.items()]
    return text + (f"\nLimits, measured in this run: {'; '.join(limits)}.\n" if text and limits else "")


def training(measured):
    rows = [[one["ranks"], one["compute_us"], one["allreduce_us"], one["apart_us"], one["step_us"], f"{one['hidden']:.2f}",
             f"{one['saved']:.2f}"] for one in measured if one["op"] == "training_step"]
    return table(["ranks on one GPU", "computing µs", "allreduce µs", "one after the other µs", "step µs",
                  "of the allreduce hidden", "of the time saved"], rows)


def doubts(measured):
    """What driver_doubts has asked, and what the driver did."""
    return table(["question", "what", "answer"], [[one["question"], one["what"], one["answer"]] for one in measured
                                                  if one["op"] == "driver_doubt"], 3)


def releases(measured):
    return "".join(f"Of a killed rank that had {size_name(one['bytes'])}: hvdrun ended after {one['hvdrun_s']} s, having said {one['said']}; "
                   f"nvidia-smi showed it free after {one['free_s']} s.\n" for one in measured if one["op"] == "released")


def launching(measured):
    """What the host spends on packing, and what all of a fused operation takes where nobody has to be waited for."""
    times = {one["op"]: one["us"] for one in measured if one["op"].endswith("_of_161")}
    text = ""
    if "launch_of_161" in times:
        text += f"The host's time for one launch that packs 161 tensors: {wanted(times['launch_of_161'], LAUNCH_US, at_least=False)} µs.\n"
    if "fused_of_161" in times:
        text += f"A fused operation of 161 tensors of one rank, from its submission to its end on the GPU: {times['fused_of_161']:.2f} µs.\n"
    return text


def others(measured):
    """What has no table of its own, as it was printed."""
    lines = [" ".join(f"{key}={value}" for key, value in one.items()) for one in measured]
    return "".join(f"    {line}\n" for line in lines)


def tables(measured):
    """(heading, text) of what was measured."""
    unknown = [one for one in measured if not set(KEYS.get(one["op"], ("?",))) <= set(one)]
    measured = [one for one in measured if one not in unknown]
    parts = [("Packing", packing(measured)), ("Launching", launching(measured)),
             ("Allreduces of ranks that share the GPU", allreduces(measured)), ("Training steps", training(measured)),
             ("What the driver does", doubts(measured)), ("GPU memory after a kill", releases(measured)), ("Other", others(unknown))]
    return [(heading, text) for heading, text in parts if text]


def steps_table(steps):
    return table(["step", "s", "result"], [[one["name"], one["seconds"], one["result"]] for one in steps], 3)


def verdict(steps):
    """What went wrong, what was not done, and how much else was right."""
    wrong = [one["name"] for one in steps if one["result"].startswith("WRONG")]
    skipped = [one["name"] for one in steps if one["result"].startswith("skipped")]
    text = f"**Wrong: {', '.join(wrong)}.** " if wrong else ""
    text += f"Right: {len(steps) - len(wrong) - len(skipped)} of {len(steps)} steps."
    return text + (f" Skipped: {', '.join(skipped)}.\n" if skipped else "\n")


def document(machine, steps, measured):
    facts = [machine.get("gpu", "no GPU") + (f" ({machine['memory']})" if "memory" in machine else "")]
    facts += [f"{name} {machine[key]}" for name, key in NUMBERED if key in machine]
    facts.append(f"MPS: {machine.get('mps', 'no sign of it')}")
    facts += [machine[key] for key in ("system", "compiler") if key in machine]
    facts.append(f"{machine.get('cores', '?')} cores of {machine.get('cpu', 'an unknown processor')}")
    text = f"# Collectives on GPUs: {machine.get('date', 'no date')}, {machine.get('gpu', 'no GPU')}\n\n"
    text += f"`tests/gpu/run`, commit {machine.get('commit', 'unknown')}. {', '.join(facts)}.\n\n"
    text += verdict(steps)
    for heading, part in tables(measured):
        text += f"\n## {heading}\n{part}"
    return text + f"\n## Steps\n{steps_table(steps)}"


def main(out):
    machine = (lines_of(out / "machine.json") or [{}])[-1]
    steps, measured = lines_of(out / "steps.jsonl"), [one for one in lines_of(out / "results.jsonl") if "op" in one]
    path = out / f"{machine.get('date', 'undated')}-{device_name(machine)}-collectives.md"
    path.write_text(document(machine, steps, measured), encoding="utf-8")
    for heading, part in tables(measured):
        print(f"{heading}:\n{part}")
    print(f"written: {path}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
