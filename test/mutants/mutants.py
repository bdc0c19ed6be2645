#!/usr/bin/env python3
"""Do the tests notice a bug?  Draws places in ccl and sim_engine by a seed, changes one at a time,
links the tests with the changed file and runs them until one fails.

    ./test.sh && test/mutants/mutants.py --count 400 --seed 1 --work ../mutants

The sources and the build stay as they are: a changed file is compiled by itself in WORK and linked
before its library, which WORK has with a member for each file.  A change that no test notices has
survived: it is printed as a line to judge.  Results are kept in WORK/mutants-SEED.csv, so that a
second call with the same seed goes on where the first has ended; with a longer --longest it runs
the longer tests for what has survived.  Tests that take little time run first, and before them
those that have noticed changes of the same folder.

    test/mutants/mutants.py --again ../mutants/mutants-1.csv --work ../mutants-again

judges again, with the tests of today, what has survived there: a change is found by its line's
text, and where several lines or places have that, each is one.
"""

import argparse
import collections
import concurrent.futures
import csv
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
import threading
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
ROOMS = ("ccl", "sim_engine")
PROGRAMS = ("sim_engine/sim_engine_test", "ccl/ccl_test", "ccl/golden_test", "runtime/runtime_test",
            "parallel/parallel_test", "tp/tp_test", "testing/testing_test", "fuzz/fuzz_test",
            "benches/benches_test")
STAGES_S = (0.03, 0.3, 3, 30, 300)  # of a test
LIMIT_RATIO = 6  # of the CPU time that tests may take to the time that they take without a mutant
LIMIT_BYTES = 8 << 30
FIELDS = ("draw", "place", "fate", "change", "line", "by", "longest")

# What is changed, and into what.
CHANGES = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
           (r" == ", " != "), (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "),
           (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" / ", " * "),
           (r" \+= ", " -= "), (r" -= ", " += "), (r"\+\+", "--"), (r"\btrue\b", "false"),
           (r"\bfalse\b", "true"), (r"std::min\b", "std::max"), (r"std::max\b", "std::min"),
           (r"if \(.*\)(?= \{?$)", "if (false)"), (r"\b1\b", "2"), (r"\b0\b", "1"),
           (r"\bcontinue;", ";"), (r"\bbreak;", ";"), (r"^  +[a-z_.>-]+\([^;]*\);$", "  ;")]


def sources():
    """Lists the .cpp files of the libraries of both rooms by room; some are generated."""
    found = {room: set() for room in ROOMS}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        room = pathlib.Path(re.search(r" -o (\S+)", entry["command"]).group(1)).parts[0]
        if room in ROOMS:
            file = pathlib.Path(entry["file"])
            found[room].update(re.findall(r'#include "(.*)"', file.read_text())
                               if "Unity" in file.parts else [entry["file"]])
    return {room: sorted(pathlib.Path(file).relative_to(ROOT) for file in files)
            for room, files in found.items()}


def places(files):
    """Lists (file, line number, begin, end, replacement) in the code of the files."""
    found = []
    for file in files:
        for number, line in enumerate((ROOT / file).read_text().splitlines()):
            code = re.sub(r'"(\\.|[^"\\])*"', lambda m: " " * len(m.group()), line)
            code = code.split("//")[0].rstrip()
            if code.startswith("#") or "KB_CHECK" in code or "static_assert" in code:
                continue
            for pattern, new in CHANGES:
                found += [(file, number, match.start(), match.end(), new)
                          for match in re.finditer(pattern, code)]
    return found


def run(command, cwd, seconds=1200, **environment):
    """Returns how the command has ended; None if it has not within so many seconds."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", preexec_fn=limit, start_new_session=True,
                          env=os.environ | environment) as process:
        try:
            process.output, _ = process.communicate(timeout=4 * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    return None if process.returncode == -signal.SIGXCPU else process


class Compiler:
    """Compiles a file of a room as the build does, but alone and without its lines' numbers."""

    def __init__(self):
        self.commands = {}
        for entry in json.loads((BUILD / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            room = words[words.index("-o") + 1].split("/")[0]
            if room in ROOMS:
                self.commands.setdefault(room, words[:words.index("-o")])

    def compile(self, room, file, source, into):
        command = [word for word in self.commands[room] if word != "-g1"]
        ended = run([*command, f"-ffile-prefix-map={source.parents[len(file.parts) - 1]}={ROOT}",
                     "-iquote", ROOT / file.parent, "-o", into, "-c", source],
                    BUILD)
        return ended is not None and ended.returncode == 0


def make_library(work, room, files, compiler, jobs):
    """Makes the library of a room with a member for each file, where it is not made yet."""
    def make_member(file):
        member = work / "members" / file.with_suffix(".o")
        member.parent.mkdir(parents=True, exist_ok=True)
        if not member.exists() and not compiler.compile(room, file, ROOT / file, member):
            raise SystemExit(f"mutants: {file} does not compile as it is")
        return member
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        members = list(pool.map(make_member, files))
    library = work / f"{room}.a"
    if not library.exists():
        part = library.with_suffix(".part")
        part.unlink(missing_ok=True)
        subprocess.run(["ar", "qc", part, *members], check=True)
        part.rename(library)


def times_of_tests():
    """Returns the seconds that each test took in the last run of ./test.sh, by program and name;
    without those that run kernbench itself, which is not linked with mutants."""
    taken = {(case.get("classname"), case.get("name")): float(case.get("time"))
             for case in xml.etree.ElementTree.parse(BUILD / "cases/junit.xml").iter("testcase")}
    times = {}
    for program in PROGRAMS:
        names = run([BUILD / "test" / program, "--list-test-names-only", "~[cli]"], ROOT).output
        keys = [(pathlib.Path(program).name, name) for name in names.splitlines()]
        times[program] = {key[1]: taken[key] for key in keys if key in taken}
        if not times[program]:
            raise SystemExit(f"mutants: ./test.sh has run no test of {program}")
    return times


def survivors_of(path, files):
    """Lists the places of the changes that have survived in a journal and are in the sources yet."""
    found = []
    for row in Journal(path).rows.values():
        if row["fate"] != "survived":
            continue
        file, number = row["place"].split(":")
        alike = [place for place in places(each for each in files if str(each) == file)
                 if text_of(place) == row["line"] and describe(place) == row["change"]]
        least = min((abs(place[1] + 1 - int(number)) for place in alike), default=0)
        found += [place for place in alike if abs(place[1] + 1 - int(number)) == least]
    return found


def line_of(place):
    return (ROOT / place[0]).read_text().splitlines()[place[1]]


def text_of(place):
    return line_of(place).strip()


def describe(place):
    _, _, begin, end, new = place
    old = line_of(place)[begin:end].strip() or text_of(place)
    return f"{old} -> {new.strip()}"


class Mutant:
    """One changed file, in the folder of the thread that judges it."""

    def __init__(self, work, place):
        self.file, self.number, self.begin, self.end, self.new = place
        self.lines = (ROOT / self.file).read_text().splitlines(keepends=True)
        self.line = self.lines[self.number].rstrip("\n")
        self.member = work / "members" / self.file.with_suffix(".o")
        self.folder = work / f"job-{threading.get_ident()}"
        self.object = self.folder / "mutant.o"
        self.work = work

    def compile(self, compiler):
        """Returns why it is no mutant; None if it is one."""
        source = self.folder / "source" / self.file
        source.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "tmp").mkdir(exist_ok=True)
        self.lines[self.number] = self.line[:self.begin] + self.new + self.line[self.end:] + "\n"
        source.write_text("".join(self.lines))
        room = self.file.parts[0]
        if not compiler.compile(room, self.file, source, self.object):
            return "does not compile"
        return "is the same code" if code_of(self.object) == code_of(self.member) else None

    def link(self, program):
        """Links a test program: the linker takes nothing from a library that the mutant has.
        Returns whether the program has the mutant's room at all."""
        command = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "-s", f"test/{program}"],
                                 check=True, text=True, stdout=subprocess.PIPE).stdout
        if f"{self.file.parts[0]}/libkernbench" not in command:
            return False
        for room in ROOMS:
            command = command.replace(f"{room}/libkernbench_{room}.a", str(self.work / f"{room}.a"))
        words = shlex.split(command)[2:-2]  # without `: &&` and `&& :`
        words[words.index("-o") + 1] = str(self.folder / pathlib.Path(program).name)
        words.insert(words.index("-o"), str(self.object))
        subprocess.run(words, cwd=BUILD, check=True, capture_output=True)
        return True

    def find_failure(self, program, times):
        """Runs tests of a program; returns the one that fails first, None if all pass."""
        names = self.folder / "names"
        escaped = (re.sub(r'([\\",\[\]])', r"\\\1", name) for name in times)
        names.write_text("".join(f'"{name}"\n' for name in escaped))
        limit = 10 + int(LIMIT_RATIO * sum(times.values()))
        ended = run([self.folder / pathlib.Path(program).name, "-a", "-f", names], ROOT, limit,
                    TMPDIR=str(self.folder / "tmp"))
        if ended is None:
            return "does not end"
        if ended.returncode == 0:
            return None
        named = re.search(r"^-{70,}\n(.*)\n", ended.output, re.MULTILINE)
        return named.group(1) if named else "ends early"


def code_of(member):
    """Returns an object file without its symbols, which name its source."""
    stripped = member.with_suffix(".stripped")
    subprocess.run(["strip", "-o", stripped, member], check=True)
    return stripped.read_bytes()


class Judge:
    """Runs the tests of one stage after the other, and those first that have noticed a change in
    the same folder."""

    def __init__(self, longest):
        self.times = times_of_tests()
        self.longest = longest
        self.noticed = collections.defaultdict(collections.Counter)  # by folder: (program, test)
        self.lock = threading.Lock()  # of `noticed`

    def remember(self, folder, by):
        program, _, test = by.partition(": ")
        if test in self.times.get(program, {}):
            with self.lock:
                self.noticed[folder][program, test] += 1

    def stages(self, folder, longest_before):
        """Yields (program, times of its tests)."""
        first = collections.defaultdict(dict)
        with self.lock:
            noticed = self.noticed[folder].most_common(20)
        for (program, test), _ in noticed:
            if self.times[program][test] < STAGES_S[1]:
                first[program][test] = self.times[program][test]
        if longest_before == 0:
            yield from list(first.items())
        for least, most in zip((-1, *STAGES_S), STAGES_S):
            for program, times in self.times.items():
                of_stage = {test: seconds for test, seconds in times.items()
                            if max(least, longest_before or -1) < seconds
                            and seconds <= min(most, self.longest)}
                if of_stage:
                    yield program, of_stage

    def judge(self, mutant, compiler, longest_before):
        """Returns what became of a mutant, and by which test."""
        reason = mutant.compile(compiler)
        return (reason, "") if reason else self.run_tests(mutant, longest_before)

    def run_tests(self, mutant, longest_before=0):
        links = {}
        for program, times in self.stages(mutant.file.parent, longest_before):
            if program not in links:
                links[program] = mutant.link(program)
            failure = mutant.find_failure(program, times) if links[program] else None
            if failure:
                self.remember(mutant.file.parent, f"{program}: {failure}")
                return "killed", f"{program}: {failure}"
        return "survived", ""


def check_sources(work, files):
    """Members, and the numbers of drawn places, are those of the sources of the first call."""
    texts = (ROOT.joinpath(file).read_bytes() for room in ROOMS for file in files[room])
    digest = hashlib.sha256(b"".join(texts)).hexdigest()
    work.mkdir(parents=True, exist_ok=True)
    marker = work / "sources"
    if marker.exists() and marker.read_text() != digest:
        raise SystemExit(f"mutants: {work} is of other sources: use another folder")
    marker.write_text(digest)


def check_tests(work, file, compiler, judge):
    """A test that fails without any change would notice each of them."""
    marker = work / f"passed-{judge.longest}"
    if marker.exists():
        return
    unchanged = Mutant(work, (file, 0, 0, 0, ""))
    unchanged.compile(compiler)
    fate, by = judge.run_tests(unchanged)
    if fate == "killed":
        raise SystemExit(f"mutants: without a change, a test fails: {by}")
    marker.touch()


class Journal:
    """What became of each place that was drawn, also by earlier calls."""

    def __init__(self, path):
        self.path, self.rows = path, {}
        if path.exists():
            with path.open(newline="") as rows:
                self.rows = {int(row["draw"]): row for row in csv.DictReader(rows)}

    def add(self, row):
        is_new = not self.path.exists()
        self.rows[row["draw"]] = row
        with self.path.open("a", newline="") as out:
            writer = csv.DictWriter(out, FIELDS)
            if is_new:
                writer.writeheader()
            writer.writerow(row)

    def mutants(self, count):
        """Returns the first so many rows that are mutants, as they were drawn."""
        rows = [self.rows[draw] for draw in sorted(self.rows)]
        return [row for row in rows if row["fate"] in ("killed", "survived")][:count]


class Campaign:
    """Judges the places that were drawn, several at a time."""

    def __init__(self, options, work, drawn, journal, judge, compiler):
        self.options, self.work, self.drawn = options, work, drawn
        self.journal, self.judge, self.compiler = journal, judge, compiler
        self.lock = threading.Lock()
        self.draws = iter(range(len(drawn)))

    def next_draw(self):
        """Returns a place that is not judged, or has survived shorter tests; None if all are."""
        with self.lock:
            count, longest = self.options.count, self.options.longest
            for draw in self.draws:
                row = self.journal.rows.get(draw)
                if row is None and len(self.journal.mutants(count)) < count:
                    return draw
                if row and row["fate"] == "survived" and float(row["longest"]) < longest:
                    return draw
        return None

    def work_off(self):
        while (draw := self.next_draw()) is not None:
            started = time.monotonic()
            mutant = Mutant(self.work, self.drawn[draw])
            before = self.journal.rows.get(draw)
            fate, by = self.judge.judge(mutant, self.compiler,
                                        float(before["longest"]) if before else 0)
            row = dict(zip(FIELDS, (draw, f"{mutant.file}:{mutant.number + 1}", fate,
                                    describe(self.drawn[draw]), mutant.line.strip(), by,
                                    self.options.longest)))
            with self.lock:
                self.journal.add(row)
                print(f"{time.monotonic() - started:6.0f} s  {'  '.join(map(str, row.values()))}",
                      flush=True)

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for job in [pool.submit(self.work_off) for _ in range(self.options.jobs)]:
                job.result()


def read_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="mutants that are other programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=pathlib.Path, help="a journal, whose survivors are judged")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument("--longest", type=float, default=STAGES_S[-1], help="seconds of a test")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    return parser.parse_args()


def main():
    options = read_options()
    work = options.work.resolve()
    files, compiler = sources(), Compiler()
    check_sources(work, files)
    for room in ROOMS:
        make_library(work, room, files[room], compiler, options.jobs)
    written = [file for room in ROOMS for file in files[room] if file.parts[0] == room]
    drawn = survivors_of(options.again, written) if options.again else places(written)
    if not options.again:
        random.Random(options.seed).shuffle(drawn)
    of = options.again.stem if options.again else f"mutants-{options.seed}"
    journal = Journal(work / f"{of}.csv")
    judge = Judge(options.longest)
    of_all_programs = next(file for file in written if file.parts[0] == "sim_engine")
    check_tests(work, of_all_programs, compiler, judge)
    for row in journal.rows.values():
        judge.remember(pathlib.Path(row["place"]).parent, row["by"])
    Campaign(options, work, drawn, journal, judge, compiler).run()
    mutants = journal.mutants(options.count)
    survivors = [row for row in mutants if row["fate"] == "survived"]
    print(f"\n{of}: {len(mutants)} mutants, {len(survivors)} survived "
          f"({100 - 100 * len(survivors) / max(len(mutants), 1):.1f} % are killed)")
    for row in survivors:
        print("  ".join((row["place"], row["change"], row["line"])))


if __name__ == "__main__":
    main()
