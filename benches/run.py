#!/usr/bin/env python3
"""Times the programs of benches/programs in Harn, Lua 5.4 and CPython, and prints the ratios.

Every program does the same work by the same algorithm in the three languages, takes its size N as
argument and prints a checksum; the driver refuses to compare programs whose checksums differ.

What is measured: processor time (user + system) of the whole process, so start-up and compilation
are in it, and a busy machine disturbs little. The languages take turns within each round, and the
best round counts; what misses a target is measured for more rounds. Start-up is wall-clock time, since
that is what a user waits for.

Needs Python 3.9 or later and nothing else; without lua5.4 or a release build of harn it says so and
times the rest.
"""

import argparse
import ctypes
import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

# Name, size for Harn, Lua and Python, and the exercised feature. Sizes result in 0.1 to 1 s in Lua, so that startup is
# negligible.
PROGRAMS = [
    ("calls", 150, "recursive calls"),
    ("loop", 40_000_000, "integer loop"),
    ("sieve", 5_000_000, "sieve"),
    ("dict", 12_000_000, "dictionary counting"),
    ("strings", 1_000_000, "string building"),
    ("map_filter", 1_000_000, "map/filter/reduce"),
    ("sort_key", 200_000, "sort with a key"),
    ("methods", 1_500_000, "struct methods"),
    ("enums", 3_000_000, "enum matching"),
    ("nbody", 200_000, "float physics"),
    ("errors", 3_000_000, "try/catch"),
    ("closures", 14_000_000, "counter closures"),
    ("json_text", 1_500, "JSON both ways"),
    ("pipeline", 2_000_000, "lazy map, filter, reduce over a range"),
    ("generators", 1_000_000, "generators over generators"),
    ("split_join", 300_000, "split and join"),
    ("split_map", 100_000, "split, map, filter, join"),
    ("parse_ints", 500_000, "ints out of text"),
    ("read_lines", 500_000, "a file line by line"),
    ("word_count", 100_000, "words of a file"),
    ("regex_lines", 300_000, "a regular expression per line"),
    ("print_lines", 1_000_000, "printing"),
    ("interpolation", 1_000_000, "texts with values in them"),
    ("characters", 200_000, "characters of a text"),
    ("ascii_index", 2_000_000, "characters by place"),
    ("text_index", 500_000, "characters by place, not all ASCII"),
    ("sort_records", 200_000, "records by a key"),
    ("sort_texts", 200_000, "texts in order"),
    ("matrix", 160, "lists of lists of floats"),
    ("nested", 300_000, "dicts in dicts"),
    ("nested_fields", 5_000_000, "updates of nested fields"),
    ("objects", 1_000_000, "small structs"),
    ("int_keys", 10_000_000, "a dict with ints as keys"),
    # Twice this size exceeds the caches of most processors, and the memory would be measured in all three languages.
    ("dict_remove", 150_000, "filling and emptying a dict"),
    ("dict_spread", 100_000, "a dict that grows by spreading"),
    ("set_add", 5_000_000, "filling a set"),
    ("set_remove", 3_000_000, "emptying a set"),
    ("queue", 100_000, "a list used as a queue"),
    ("stack", 2_000_000, "a list used as a stack"),
    ("memo", 50_000, "remembering results"),
    ("spawn_await", 100_000, "tasks awaited one by one"),
    ("spawn_all", 100_000, "tasks awaited when all are started"),
    ("parallel", 100_000, "parallel over many items"),
    ("channel", 500_000, "messages from task to task"),
    ("ping_pong", 200_000, "messages forth and back"),
]

# Programs that read a file of N lines, whose path is their second argument.
READS_LINES = {"read_lines", "word_count"}

# The work is not proportional to N.
NO_GROWTH = {
    "matrix": "the work is the cube of N",
}

# Lua's library has no JSON: its program contains a parser written in Lua, while the other two use C or Rust. The ratio
# is printed but excluded from the mean against Lua.
NOT_IN_LUA_MEAN = {"json_text"}

SUFFIX = {"harn": ".harn", "lua": ".lua", "python": ".py"}

# A program may grow slightly faster than its N: caches fill, and sorting is N log N.
GROWTH_LIMIT = 2.3

TARGETS = {
    "mean against Lua": 0.625,
    "worst against Lua": 1.1,
    "worst against Python": 1.0,
    "start-up, ms": 2.5,
    "start-up, MiB": 9.0,
    "100,000 tasks, s": 0.5,
    "100,000 tasks, MiB": 300.0,
    "1,000,000 messages, s": 0.3,
}


def find_harn(given):
    """The harn binary to measure: --harn, or the release build."""
    if given:
        return given if os.path.exists(given) else None
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    path = os.path.join(target, "release", "harn")
    return path if os.path.exists(path) else None


def commands(harn):
    """The command line prefix of each language that is installed."""
    found = {}
    if harn:
        found["harn"] = [harn, "run"]
    lua = shutil.which("lua5.4") or shutil.which("lua54")
    if not lua and shutil.which("lua"):
        version = subprocess.run(["lua", "-v"], capture_output=True, text=True).stdout
        lua = shutil.which("lua") if "Lua 5.4" in version else None
    if lua:
        found["lua"] = [lua]
    # The interpreter itself, not a launcher script in front of it.
    found["python"] = [sys.executable, "-S"]
    return found


def source_of(language, program):
    """Path of a program; None where it makes no sense in a language (Lua has no tasks)."""
    path = os.path.join(HERE, "programs", program + SUFFIX[language])
    return path if os.path.exists(path) else None


def lines_file(n):
    """Path of a file with n lines of twelve words, made on first use."""
    path = os.path.join(tempfile.gettempdir(), f"harn_bench_lines_{n}.txt")
    if not os.path.exists(path):
        state = 12345
        with open(path + ".part", "w") as file:
            for _ in range(n):
                words = []
                for _ in range(12):
                    state = (state * 1103515245 + 12345) % 2147483648
                    words.append(f"w{state // 1024 % 5000:04}")
                file.write(" ".join(words) + "\n")
        os.replace(path + ".part", path)
    return path


def command_for(language, prefix, program, n):
    """The whole command line that runs one program at one size."""
    path = source_of(language, program)
    more = [lines_file(n)] if program in READS_LINES else []
    return prefix + [path] + (["--"] if language == "harn" else []) + [str(n)] + more


def run_once(command, limit_s):
    """Runs a command; gives (seconds of processor time, output)."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + limit_s
        pid = 0
        while not pid:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if not pid:
                if time.monotonic() > deadline:
                    child.kill()
                time.sleep(0.002)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode("utf-8", "replace").strip()
        if len(text) > 1000:
            text = hashlib.sha256(text.encode()).hexdigest()
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}: {text[:400]}")
    return usage.ru_utime + usage.ru_stime, text


# Number of additional rounds, in all languages, for a program that seems too slow or to grow too fast. Other work on
# the machine only makes times longer, so the best of many rounds is the most reliable.
MORE_ROUNDS = 8


def misses(best):
    """Whether a program is slower than its targets allow."""
    limits = {"lua": TARGETS["worst against Lua"], "python": TARGETS["worst against Python"]}
    return any(best.get("harn", 0) > best[other] * limit for other, limit in limits.items() if other in best)


def measure(program, n, found, rounds, limit_s):
    """Best time per language, and the checksum they agree on."""
    best, sums, failed = {}, {}, {}
    for done in range(rounds + MORE_ROUNDS):
        if done >= rounds and not misses(best):
            break
        for language, prefix in found.items():
            if language in failed or source_of(language, program) is None:
                continue
            try:
                seconds, text = run_once(command_for(language, prefix, program, n), limit_s)
            except RuntimeError as error:
                failed[language] = str(error)
                continue
            best[language] = min(seconds, best.get(language, math.inf))
            sums[language] = text
    if len(set(sums.values())) > 1:
        failed["checksum"] = f"{program}: the checksums differ: {sums}"
    return best, sums, failed


def start_up(command, runs):
    """Best and median wall-clock milliseconds of running a command to its end, measured longer if the best misses the target."""
    times = []
    for done in range(runs * MORE_ROUNDS):
        if done >= runs and min(times) <= TARGETS["start-up, ms"]:
            break
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - begin) * 1000)
    times.sort()
    return times[0], times[len(times) // 2]


def peak_memory(command):
    """Peak resident MiB of a command, or None where the system cannot tell.

    A child inherits the peak of the process it was started from, and this driver is larger than what
    it measures. So a shell starts the command and leaves, and the orphan comes to us.
    """
    if platform.system() != "Linux":
        return None
    become_subreaper = 36  # PR_SET_CHILD_SUBREAPER
    if ctypes.CDLL(None, use_errno=True).prctl(become_subreaper, 1, 0, 0, 0) != 0:
        return None
    shell = subprocess.Popen(["/bin/sh", "-c", '"$@" >/dev/null & exit 0', "sh"] + command)
    peak = None
    while True:
        try:
            pid, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        if pid != shell.pid:
            peak = usage.ru_maxrss / 1024
    shell.returncode = 0
    return peak


def mean(values):
    """Geometric mean; None of nothing."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def shown(value, form="{:8.2f}", missing="       -"):
    """A number in its column, or a dash."""
    return missing if value is None else form.format(value)


def versions(found):
    """One line per language: which interpreter was measured."""
    lines = {}
    for language, prefix in found.items():
        flag = "-v" if language == "lua" else "--version"
        done = subprocess.run([prefix[0], flag], capture_output=True, text=True)
        lines[language] = (done.stdout or done.stderr).strip().split("  ")[0]
    return lines


def report_growth(harn, programs, rounds, limit_s):
    """Times Harn at N and N/2; gives the ratios and prints a line per program."""
    print(f"\nGrowth: time at 2N / time at N (limit {GROWTH_LIMIT})")
    ratios = {}
    for name, n, _ in programs:
        if name in NO_GROWTH:
            print(f"  {name:12}   not measured: {NO_GROWTH[name]}")
            continue
        try:
            times = [math.inf, math.inf]
            for done in range(rounds + MORE_ROUNDS):
                if done >= rounds and times[1] <= GROWTH_LIMIT * times[0]:
                    break
                for i, size in enumerate((n // 2, n)):
                    seconds, _ = run_once(command_for("harn", harn, name, size), limit_s)
                    times[i] = min(times[i], seconds)
        except RuntimeError as error:
            print(f"  {name:12} failed: {error}")
            ratios[name] = math.inf
            continue
        ratios[name] = times[1] / max(times[0], 1e-4)
        print(f"  {name:12} {ratios[name]:5.2f}{'' if ratios[name] <= GROWTH_LIMIT else '   TOO FAST'}", flush=True)
    return ratios


def regressions(rows, earlier, slack):
    """Compares the ratios to the other language with earlier ones; returns a line per program that lost more than `slack`."""
    before = {row["program"]: row for row in earlier}
    lost, lines = [], []
    for row in rows:
        old = before.get(row["program"], {})
        column = "harn_lua" if row["harn_lua"] and old.get("harn_lua") else "harn_python"
        if row[column] and old.get(column):
            factor = row[column] / old[column]
            lost.append(factor)
            if factor > slack:
                lines.append(f"{row['program']}: {column} was {old[column]:.2f} and is {row[column]:.2f}")
    if not lost:
        return ["--against: no program was measured in both runs"]
    change = mean(lost)
    print(f"\nAgainst the earlier results: {change:.3f} times the ratio in the mean of {len(lost)} programs")
    if change > 1 + (slack - 1) / 5:
        lines.append(f"the mean ratio is {change:.3f} times the earlier one")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--harn", help="the harn binary (default: the release build)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the best counts (default 5)")
    parser.add_argument("--only", help="names of programs, separated by commas")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, 2 rounds: a rough picture")
    growth = parser.add_mutually_exclusive_group()
    growth.add_argument("--no-growth", action="store_true", help="leave out the growth check")
    growth.add_argument("--only-growth", action="store_true", help="do the growth check and nothing else")
    parser.add_argument("--limit", type=float, default=120, help="seconds after which a program is killed")
    parser.add_argument("--json", metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--against", metavar="FILE", help="fail when a ratio is worse than in these results (--json)")
    parser.add_argument("--slack", type=float, default=1.25,
                        help="with --against: the factor that one program may lose (default 1.25); the mean may lose a fifth of it")
    options = parser.parse_args()

    programs = PROGRAMS
    if options.only:
        wanted = [name.strip() for name in options.only.split(",")]
        unknown = [name for name in wanted if name not in [p[0] for p in PROGRAMS]]
        if unknown:
            parser.error(f"no such program: {', '.join(unknown)} (there are: {', '.join(p[0] for p in PROGRAMS)})")
        programs = [p for p in PROGRAMS if p[0] in wanted]
    rounds = 2 if options.quick else max(1, options.rounds)
    if options.quick:
        programs = [(name, max(1, n // 10), what) for name, n, what in programs]

    found = commands(find_harn(options.harn))
    if "harn" not in found:
        print("harn: no release build found; `make build` makes one, --harn names one", file=sys.stderr)
    if "lua" not in found:
        print("lua: Lua 5.4 is not installed (Debian, Ubuntu: apt-get install lua5.4); its column stays empty",
              file=sys.stderr)
    if options.only_growth:
        if "harn" not in found:
            return 1
        growth = report_growth(found["harn"], programs, min(rounds, 2), options.limit)
        return 1 if any(ratio > GROWTH_LIMIT for ratio in growth.values()) else 0
    names = versions(found)
    for language, line in names.items():
        print(f"{language:7} {line}")
    print(f"\nBest of {rounds} rounds, seconds of processor time; below 1.00 Harn is faster\n")
    print(f"{'program':12} {'harn':>8} {'lua':>8} {'python':>8} {'harn/lua':>9} {'harn/py':>8}  exercises")

    rows, problems = [], [] if "harn" in found else ["nothing to compare: harn is missing"]
    for name, n, what in programs:
        best, sums, failed = measure(name, n, found, rounds, options.limit)
        problems += [f"{name}: {text}" for text in failed.values()]
        harn, lua, python = (best.get(language) for language in ("harn", "lua", "python"))
        against_lua = harn / lua if harn and lua else None
        against_python = harn / python if harn and python else None
        mark = "*" if name in NOT_IN_LUA_MEAN else " "
        print(f"{name:12} {shown(harn, '{:8.3f}')} {shown(lua, '{:8.3f}')} {shown(python, '{:8.3f}')} "
              f"{shown(against_lua)}{mark} {shown(against_python)}  {what}", flush=True)
        rows.append({"program": name, "n": n, "seconds": best, "harn_lua": against_lua,
                     "harn_python": against_python, "checksum": next(iter(sums.values()), None)})

    lua_ratios = [r["harn_lua"] for r in rows if r["harn_lua"] and r["program"] not in NOT_IN_LUA_MEAN]
    python_ratios = [r["harn_python"] for r in rows if r["harn_python"]]
    print(f"{'mean':12} {'':8} {'':8} {'':8} {shown(mean(lua_ratios))}  {shown(mean(python_ratios))}  geometric")
    if any(r["program"] in NOT_IN_LUA_MEAN for r in rows):
        print("* not in the mean: Lua's library has no JSON, the program carries one written in Lua")

    results = {}
    if lua_ratios:
        results["mean against Lua"] = mean(lua_ratios)
        results["worst against Lua"] = max(lua_ratios)
    if python_ratios:
        results["worst against Python"] = max(python_ratios)

    growth = {}
    if "harn" in found:
        script = tempfile.NamedTemporaryFile("w", suffix=".harn", delete=False)
        script.write('println("hello")\n')
        script.close()
        try:
            command = found["harn"] + [script.name]
            best_ms, median_ms = start_up(command, 10 if options.quick else 60)
            memory = peak_memory(command)
        except subprocess.CalledProcessError as error:
            problems.append(f"start-up: {error}")
        else:
            print(f"\nStart-up of a one-line script: best {best_ms:.2f} ms, median {median_ms:.2f} ms, "
                  f"peak memory {shown(memory, '{:.1f}', 'unknown')} MiB")
            results["start-up, ms"] = best_ms
            if memory is not None:
                results["start-up, MiB"] = memory
        finally:
            os.unlink(script.name)
        try:
            tasks = command_for("harn", found["harn"], "spawn_all", 100_000)
            messages = command_for("harn", found["harn"], "channel", 1_000_000)
            best = [min(run_once(command, options.limit)[0] for _ in range(rounds)) for command in (tasks, messages)]
            memory = peak_memory(tasks)
        except RuntimeError as error:
            problems.append(f"tasks and messages: {error}")
        else:
            print(f"100,000 tasks started, then awaited: {best[0]:.2f} s, {shown(memory, '{:.0f}', 'unknown')} MiB; "
                  f"1,000,000 messages: {best[1]:.2f} s")
            results["100,000 tasks, s"], results["1,000,000 messages, s"] = best
            if memory is not None:
                results["100,000 tasks, MiB"] = memory
        if not options.no_growth and not options.quick:
            growth = report_growth(found["harn"], programs, min(rounds, 2), options.limit)
            problems += [f"{name}: grows faster than its size ({ratio:.2f})"
                         for name, ratio in growth.items() if ratio > GROWTH_LIMIT]

    if options.against:
        with open(options.against) as file:
            problems += regressions(rows, json.load(file)["programs"], options.slack)
    if results:
        print("\nTargets")
        for name, value in results.items():
            target = TARGETS[name]
            print(f"  {name:28} {value:7.2f}   at most  {target:<5} {'met' if value <= target else 'MISSED'}")
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    if options.json:
        os.makedirs(os.path.dirname(os.path.abspath(options.json)), exist_ok=True)
        with open(options.json, "w") as file:
            json.dump({"versions": names, "rounds": rounds, "programs": rows, "growth": growth,
                       "results": results, "problems": problems}, file, indent=2)
            file.write("\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
