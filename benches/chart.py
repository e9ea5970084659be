#!/usr/bin/env python3
"""Draws the picture of the README from results of `make bench`: benches/chart.py RESULTS.json PICTURE.svg

One row per program: how long Harn takes, as a share of what Lua 5.4 and CPython take for the same work. Needs nothing but
Python 3.9.
"""

import json
import math
import sys
from xml.sax.saxutils import escape

from run import NOT_IN_LUA_MEAN

# The most informative programs for new readers, in the order of the picture.
SHOWN = ["calls", "loop", "sieve", "nbody", "dict", "word_count", "strings", "split_join", "regex_lines", "sort_key",
         "objects", "enums", "closures", "generators", "pipeline", "json_text", "parallel", "spawn_all"]
LABELS = {"calls": "recursive calls", "loop": "integer loop", "nbody": "float physics", "dict": "dictionary",
          "word_count": "words of a file", "strings": "building strings", "split_join": "split and join",
          "regex_lines": "regular expressions", "sort_key": "sort with a key", "objects": "small structs",
          "enums": "enum matching", "pipeline": "lazy pipelines", "json_text": "JSON both ways",
          "parallel": "parallel tasks", "spawn_all": "100,000 tasks"}
LANGUAGES = [("lua", "Lua 5.4", "#2f6f9f"), ("python", "CPython", "#c8862b")]

LEFT, BAR, ROW, TOP = 170, 420, 26, 78
# The right end of the scale. Longer bars are truncated and labelled with their length.
SCALE = 1.5


def mean(values):
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def ratio(row, language):
    """Harn's time as a share of another language's, or None."""
    seconds = row["seconds"]
    if not seconds.get("harn") or not seconds.get(language):
        return None
    return seconds["harn"] / seconds[language]


def text(x, y, words, size=12, anchor="start", weight="normal", fill="#222"):
    """A line of text."""
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{fill}">{escape(words)}</text>')


def draw(results):
    """The picture as SVG."""
    rows = {row["program"]: row for row in results["programs"]}
    rows = [rows[name] for name in SHOWN if name in rows]
    height = TOP + ROW * len(rows) + 44
    width = LEFT + BAR + 90
    one = LEFT + BAR / SCALE
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="system-ui, sans-serif" role="img" aria-label="Running time of Harn against Lua and CPython">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           text(16, 26, "Running time of Harn as a share of others: shorter is faster", 15, weight="600")]
    x = 16
    for language, name, colour in LANGUAGES:
        ratios = [r for r in (ratio(row, language) for row in results["programs"]
                              if not (language == "lua" and row["program"] in NOT_IN_LUA_MEAN)) if r]
        label = f"of {name}: {mean(ratios):.2f} in the mean of {len(ratios)} programs"
        out.append(f'<rect x="{x}" y="42" width="12" height="12" rx="2" fill="{colour}"/>')
        out.append(text(x + 18, 52, label))
        x += 300
    bottom = TOP + ROW * len(rows)
    for share in (0.5, 1.0, SCALE):
        at = LEFT + BAR * share / SCALE
        out.append(f'<line x1="{at:.0f}" y1="{TOP - 6}" x2="{at:.0f}" y2="{bottom}" stroke="#ddd"/>')
        out.append(text(at, bottom + 16, f"{share:g}", 11, "middle", fill="#666"))
    out.append(f'<line x1="{one:.0f}" y1="{TOP - 6}" x2="{one:.0f}" y2="{bottom}" stroke="#888" stroke-dasharray="4 3"/>')
    out.append(text(one, bottom + 32, "as fast", 11, "middle", fill="#666"))
    for n, row in enumerate(rows):
        y = TOP + ROW * n
        name = row["program"]
        out.append(text(LEFT - 10, y + 14, LABELS.get(name, name.replace("_", " ")), 12, "end"))
        for k, (language, _, colour) in enumerate(LANGUAGES):
            share = ratio(row, language)
            if share is None:
                continue
            length = BAR * min(share, SCALE) / SCALE
            top = y + 2 + 9 * k
            out.append(f'<rect x="{LEFT}" y="{top}" width="{max(length, 1):.1f}" height="8" rx="1" fill="{colour}"/>')
            out.append(text(LEFT + length + 5, top + 8, f"{share:.2f}", 9, fill="#666"))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    with open(sys.argv[1]) as file:
        results = json.load(file)
    with open(sys.argv[2], "w") as file:
        file.write(draw(results))


if __name__ == "__main__":
    main()
