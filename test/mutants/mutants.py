#!/usr/bin/env python3
"""Do the tests notice a bug?  Draws places in ccl and sim_engine by a seed, changes one at a time in
a copy of the sources, builds the copy's tests and runs them until one fails.

    test/mutants/mutants.py --count 400 --seed 1 --work ../mutants

A change that no test notices has survived: it is printed as a line to judge.  Results are kept in
WORK/mutants-SEED.csv, so that a second call with the same seed goes on where the first has ended.
Tests that take little time run first, since most changes are noticed by one of them.
"""

import argparse
import csv
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("ccl", "sim_engine")
TESTS = {"ccl": ("ccl/ccl_test", "ccl/golden_test"),
         "sim_engine": ("sim_engine/sim_engine_test", "ccl/ccl_test", "ccl/golden_test")}
LIMIT_S = 1200  # of CPU time for a build
LIMIT_OF_WAITS_S = 3600
QUICK_S = 0.3  # of a test
LIMIT_RATIO = 4  # of the CPU time that tests may take to what they take without a mutant

# What is changed, and into what.
CHANGES = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
           (r" == ", " != "), (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "),
           (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" / ", " * "),
           (r" \+= ", " -= "), (r" -= ", " += "), (r"\+\+", "--"), (r"\btrue\b", "false"),
           (r"\bfalse\b", "true"), (r"std::min\b", "std::max"), (r"std::max\b", "std::min"),
           (r"if \(.*\)(?= \{?$)", "if (false)"), (r"\b1\b", "2"), (r"\b0\b", "1"),
           (r"\bcontinue;", ";"), (r"\bbreak;", ";"), (r"^  +[a-z_.>-]+\([^;]*\);$", "  ;")]


def places(work):
    """Lists (file, line number, begin, end, replacement) in the code of the copy's .cpp files."""
    found = []
    for room in ROOMS:
        for path in sorted((work / room).rglob("*.cpp")):
            for number, line in enumerate(path.read_text().splitlines()):
                code = re.sub(r'"(\\.|[^"\\])*"', lambda m: " " * len(m.group()), line)
                code = code.split("//")[0].rstrip()
                if code.startswith("#") or "KB_CHECK" in code or "static_assert" in code:
                    continue
                for pattern, new in CHANGES:
                    for match in re.finditer(pattern, code):
                        found.append((path.relative_to(work), number, match.start(), match.end(), new))
    return found


def run(command, cwd, seconds=LIMIT_S):
    """Returns how the command has ended; None if it has not within so many seconds of CPU time."""
    def limit_cpu_time():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    try:
        ended = subprocess.run(command, cwd=cwd, timeout=LIMIT_OF_WAITS_S, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                               preexec_fn=limit_cpu_time)
        return None if ended.returncode == -signal.SIGXCPU else ended
    except subprocess.TimeoutExpired:
        return None


def build(work, tests):
    targets = [test.split("/")[1] for test in tests]
    return run(["ninja", "-C", "build/release", *targets], work).returncode == 0


def make_copy(work):
    """Copies what is committed, and builds it."""
    archive = work.with_suffix(".tar")  # of the first call, since places are counted in it
    if not archive.exists():
        work.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT, check=True)
        subprocess.run(["tar", "xf", archive, "-C", work], check=True)
        subprocess.run(["cmake", "--preset", "release", "-DKERNBENCH_GROUP_SIZE=1"], cwd=work,
                       check=True)
    marker = work / "mutant"  # of a call that was interrupted
    if marker.exists():
        subprocess.run(["tar", "xmf", archive, "-C", work, marker.read_text()], check=True)
    if not build(work, TESTS["sim_engine"]):
        sys.exit("mutants: the copy does not build as it is")
    for test in TESTS["sim_engine"]:
        list_by_time(work, test)


def file_of_names(work, test, speed):
    return work / f"{pathlib.Path(test).name}.{speed}"


def list_by_time(work, test):
    """Writes the names of a program's quick tests into a file, and those of the others into one, with
    a first line that tells how many seconds they take: a comment to Catch2."""
    if file_of_names(work, test, "slow").exists():
        return
    program = work / "build/release/test" / test
    report = subprocess.run([program, "-r", "xml", "-d", "yes"], cwd=work, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, check=True).stdout
    names = {"quick": [], "slow": []}
    total_s = {"quick": 0, "slow": 0}
    for case in xml.etree.ElementTree.fromstring(report).iter("TestCase"):
        seconds = float(case.find("OverallResult").get("durationInSeconds"))
        name = re.sub(r"([,\[\]])", r"\\\1", case.get("name"))
        speed = "quick" if seconds < QUICK_S else "slow"
        names[speed].append(name)
        total_s[speed] += seconds
    for speed, of_speed in names.items():
        lines = [f"# {total_s[speed]:.1f} s", *of_speed]
        file_of_names(work, test, speed).write_text("".join(f"{line}\n" for line in lines))


def find_failure(work, tests):
    """Returns the test that fails first; None if all pass."""
    for speed, test in [(speed, test) for speed in ("quick", "slow") for test in tests]:
        names = file_of_names(work, test, speed)
        first, *others = names.read_text().splitlines()
        if not others:
            continue
        limit = 20 + int(LIMIT_RATIO * float(first.split()[1]))
        ended = run([work / "build/release/test" / test, "-a", "-f", names], work, limit)
        if ended is None:
            return f"{test}: does not end"
        if ended.returncode != 0:
            named = re.search(r"^-{70,}\n(.*)\n", ended.stdout, re.MULTILINE)
            return f"{test}: {named.group(1) if named else 'it ends early'}"
    return None


def judge(work, place):
    """Returns what became of a mutant: `killed`, `survived` or `does not compile`, and by what."""
    file, number, begin, end, new = place
    path, tests = work / file, TESTS[file.parts[0]]
    original = path.read_text()
    lines = original.splitlines(keepends=True)
    lines[number] = lines[number][:begin] + new + lines[number][end:]
    (work / "mutant").write_text(str(file))
    path.write_text("".join(lines))
    try:
        if not build(work, tests):
            return "does not compile", ""
        failure = find_failure(work, tests)
        return ("survived", "") if failure is None else ("killed", failure)
    finally:
        path.write_text(original)
        (work / "mutant").unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=400, help="mutants that compile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder of the copy")
    options = parser.parse_args()
    make_copy(options.work)
    drawn = places(options.work)
    random.Random(options.seed).shuffle(drawn)
    journal = options.work / f"mutants-{options.seed}.csv"
    rows = list(csv.reader(journal.open())) if journal.exists() else []
    while sum(row[1] != "does not compile" for row in rows) < options.count and len(rows) < len(drawn):
        place = drawn[len(rows)]
        file, number, begin, end, new = place
        line = (options.work / file).read_text().splitlines()[number]
        started = time.monotonic()
        fate, by = judge(options.work, place)
        what = f"{line[begin:end].strip() or line.strip()} -> {new.strip()}"
        rows.append([f"{file}:{number + 1}", fate, what, line.strip(), by])
        with journal.open("a", newline="") as out:
            csv.writer(out).writerow(rows[-1])
        print(f"{time.monotonic() - started:6.0f} s  {'  '.join(rows[-1])}", flush=True)
    survivors = [row for row in rows if row[1] == "survived"]
    compiled = [row for row in rows if row[1] != "does not compile"]
    print(f"\nseed {options.seed}: {len(compiled)} mutants, {len(survivors)} survived "
          f"({100 - 100 * len(survivors) / max(len(compiled), 1):.1f} % are killed)")
    for row in survivors:
        print("  ".join(row[:1] + row[2:4]))


if __name__ == "__main__":
    main()
