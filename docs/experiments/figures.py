#!/usr/bin/env python3
"""Draws the pictures of these chapters from the results: `python3 docs/experiments/figures.py`, from anywhere.

Every length is a figure of a JSON file under results/; nothing is typed in here. Standard library only.
"""
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = "2026-11-22-firecracker-ext4"
LABEL, BAR, ROW, WIDTH = 160, 400, 18, 660
STYLE = """<style>
text{font:12px system-ui,sans-serif;fill:#1b1f24}.h{font-weight:600}.q{fill:#57606a}
.s0{fill:#0a6fb5}.s1{fill:#c9510c}.s2{fill:#5b7a1e}.bg{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.q{fill:#9aa4af}.s0{fill:#58a6ff}.s1{fill:#f0883e}.s2{fill:#a5c261}.bg{fill:#0d1117}}
</style>"""


def rows(scenario):
    study = json.loads((HERE.parents[1] / "results" / RUN / f"{scenario}.json").read_text())["study"]
    return [(row, row["outcome"]["measured"]) for row in study["rows"]]


def latency(measured, name, point):
    found = next(entry["latency"] for entry in measured["latencies"] if entry["name"] == name)
    return found[f"{point}_ns"]


def three(value):
    """Three significant digits, as the reports round."""
    text = f"{value * (1 + 1e-9):.3g}"  # halves go up, as in the reports
    return f"{float(text):,.0f}" if "e" in text or value >= 100 else text


def bars(scenario, title, unit, series, groups, picture=None):
    """`groups`: (label, one value a series, None where there is none). Linear, from zero. `picture`: its name, if not the scenario's."""
    most = max(value for _, values in groups for value in values if value is not None)
    out, y = [], 22
    out.append(f'<text class="h" x="8" y="{y}">{title}</text>')
    y += 18
    x = 8
    for index, name in enumerate(series):
        out.append(f'<rect class="s{index}" x="{x}" y="{y - 10}" width="10" height="10"/>')
        out.append(f'<text class="q" x="{x + 15}" y="{y}">{name}</text>')
        x += 30 + 7 * len(name)
    y += 14
    for label, values in groups:
        out.append(f'<text x="8" y="{y + 13}">{label}</text>')
        for index, value in enumerate(values):
            if value is not None:
                length = max(1, round(BAR * value / most, 1))
                out.append(f'<rect class="s{index}" x="{LABEL}" y="{y + 3}" width="{length}" height="{ROW - 5}"/>')
                out.append(f'<text x="{LABEL + length + 5}" y="{y + 13}">{three(value)} {unit}</text>')
                y += ROW
        y += 6
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 6}" width="{WIDTH}" role="img">'
    source = f"<!-- drawn by figures.py from results/{RUN}/{scenario}.json -->"
    body = "\n".join(out)
    (HERE / f"{picture or scenario}.svg").write_text(
        f"{head}\n{source}\n<title>{title}</title>\n{STYLE}\n"
        f'<rect class="bg" width="{WIDTH}" height="{y + 6}"/>\n{body}\n</svg>\n')


def stall():
    groups = []
    for row, measured in rows("stall"):
        values = [latency(measured, name, "p99") for name in ("in_flight", "clear", "service")]
        groups.append((row["label"], [value and value / 1000 for value in values]))
    # One design's tail would flatten all others: the picture shows service time too, and leaves that one bar out.
    groups = [(label, [value if value and value < 1000 else None for value in values]) for label, values in groups]
    bars("stall", "99th percentile of an append (direct+dsync from its arrival: see the table)", "µs",
         ["from arrival, a sync in flight", "from arrival, none", "the append's own time"], groups)


def cached():
    groups = []
    for row, measured in rows("cached"):
        per_call = {call["call"]: call["cpu_ns"] / call["calls"] / 1000 for call in measured["calls"]}
        groups.append((row["label"], [per_call["fsync"], per_call["write"]]))
    bars("cached", "CPU time of one call, by how much of the file is cached", "µs", ["fsync", "write"], groups)


def path():
    groups = [(row["label"], [latency(measured, "write", point) for point in ("min", "p50", "p99")])
              for row, measured in rows("path") if row["id"].endswith("/closed")]
    bars("path", "One write of 4 KiB, closed loop", "ns", ["minimum", "median", "99th percentile"], groups)


def group():
    by_writers = {}
    for row, measured in rows("group"):
        rate = next(entry["value"] for entry in measured["figures"] if entry["name"] == "commits_per_s")
        by_writers.setdefault(row["label"], []).append(rate)
    bars("group", "Durable commits of 4 KiB a second", "/s",
         ["one file, each its own sync", "one journal each", "one Seawall log"],
         [(f"{label} writers" if label != "1" else "1 writer", rates) for label, rates in by_writers.items()])


def interfere():
    groups = []
    for row, measured in rows("interfere"):
        groups.append((f"{row['group'].replace('buffered+', '+')} / {row['label']}",
                       [latency(measured, "commit", "p50") / 1000, latency(measured, "commit", "p99") / 1000]))
    bars("interfere", "A commit of 16 KiB with other work beside it", "µs", ["median", "99th percentile"], groups)


# The native way that makes the same calls, and its JVM rows by what they are called.
INTO_MEMORY = [("seek+write", "raf-seek+write"), ("pwrite", "channel-heap-at"), ("pwrite", "channel-direct-at"),
               ("pwrite", "ffm-pwrite"), ("pwrite", "ffm-pwrite-heap"), ("mapped", "mapped-buffer")]
DURABLE = [("dsync", "raf-rwd"), ("dsync", "channel-dsync"), ("buffered+fdatasync", "channel-force-false"),
           ("buffered+fsync", "channel-force-true"), ("direct+dsync", "channel-odirect-dsync"),
           ("mmap+msync", "mapped-buffer-force"), ("rwf-dsync", "ffm-dsync")]


def on_jvms(run, picture, title, ways, point, per):
    study = json.loads((HERE.parents[1] / "results" / RUN / f"{run}.json").read_text())["study"]
    found = {row["id"]: row["outcome"].get("measured") for row in study["rows"]}

    def of(row):
        measured = found.get(f"{row}/closed")
        return measured and latency(measured, "write", point) / per

    groups = [(way, [of(native), of(f"jdk17/{way}"), of(f"jdk25/{way}")]) for native, way in ways]
    bars(run, title, "ns" if per == 1 else "µs", ["the same calls, native", "JDK 17", "JDK 25"], groups, picture)


def path_jvm():
    on_jvms("path-jvm-tmpfs", "path-jvm", "One write of 4 KiB into tmpfs, closed loop: minimum", INTO_MEMORY, "min", 1)
    on_jvms("path-jvm", "path-jvm-durable", "One durable write of 4 KiB on ext4, closed loop: median", DURABLE, "p50", 1000)


for draw in (stall, cached, path, group, interfere, path_jvm):
    draw()
