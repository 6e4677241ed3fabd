#!/usr/bin/env python3
"""Runs what the docs show: docs_test.py [--quick] [--update] PROGRAM SOURCE [FILE.md ...].

--quick looks `run` and `tune` up, which train, and what is said to be slow, instead of running them. --update writes what
is printed now in place of shown lines that differ: read it as a diff.

A command is a line of a block (four spaces or ```) that begins with `trireme` or `tools/run`, or with `$ ` before one of them; a
backslash at its end continues it. Commands of one page run in its order in one folder, which also holds the files of
tests/docs/files. The lines of the block below a `$ ` command are compared with what it prints: `…` alone stands for any
lines, `…` in a line for any text, and times that a machine takes ("in 162.9 ms") are not compared. A comment at the end
of a line says what is special:
  # no: REASON       is not run (a GPU, a framework); its options are looked up in --help all the same
  # slow: REASON     is not run under --quick
  # exit 1           ends with this code
Links to files and headings must lead somewhere.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

COMMAND = re.compile(r"^(?:\$ )?((?:trireme|tools/run)(?: .*)?)$")
CHANGING = [(re.compile(r"in [0-9.]+ (ms|s)\b"), "in SOME TIME"), (re.compile(r"commit [0-9a-f+]+|commit unknown"), "commit C"),
            (re.compile(r"GCC [0-9.]+|Clang [0-9.]+"), "COMPILER")]


def blocks(text):
    """(first line's number, lines) of every block, indent taken off."""
    found, block, fenced = [], [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
            if not fenced:
                found.append((number - len(block), block))
                block = []
        elif fenced:
            block.append(line)
        elif line.startswith("    "):
            block.append(line[4:])
        elif block and not line.strip():
            block.append("")
        elif block:
            found.append((number - len(block), block))
            block = []
    return found + ([(0, block)] if block else [])


class Step:

    def __init__(self, number, command, shown):
        self.number, self.shown = number, shown
        self.command, _, remark = command.partition("   #")
        self.command = self.command.strip()
        remark = remark.strip()
        self.skipped = remark.startswith("no:")
        self.slow = remark.startswith("slow:") or self.command.split()[1] in ("run", "tune")
        exits = re.search(r"exit (\d)", remark)
        self.code = int(exits.group(1)) if exits else 0


def steps(text):
    for first, lines in blocks(text):
        at = 0
        while at < len(lines):
            number, match = first + at, COMMAND.match(lines[at])
            at += 1
            if not match:
                continue
            command = match.group(1)
            while command.endswith("\\") and at < len(lines):
                command = command[:-1] + lines[at].strip()
                at += 1
            shown = []
            if lines[number - first].startswith("$ "):
                while at < len(lines) and not lines[at].startswith("$ "):
                    shown.append(lines[at].rstrip())
                    at += 1
                while shown and not shown[-1]:
                    shown.pop()
            yield Step(number, command, shown)


def usual(line):
    for pattern, word in CHANGING:
        line = pattern.sub(word, line)
    return line.rstrip()


def like(shown, printed):
    parts = [re.escape(part) for part in usual(shown).split("…")]
    return re.fullmatch(".*".join(parts), usual(printed)) is not None


def missing_line(shown, printed):
    """The first shown line that was not printed in its place, or None."""
    at, anywhere = 0, False
    for line in shown:
        if line.strip() == "…":
            anywhere = True
            continue
        places = range(at, len(printed)) if anywhere else range(at, min(at + 1, len(printed)))
        found = next((place for place in places if like(line, printed[place])), None)
        if found is None:
            return line
        at, anywhere = found + 1, False
    if not anywhere and any(line.strip() for line in printed[at:]):
        return "(the end; printed goes on: " + printed[at] + ")"
    return None


def nearest_lines(shown, printed):
    """The shown lines, each that was not printed replaced by the printed one most like it, in order."""
    lines, at = [], 0
    for line in shown:
        if line.strip() == "…":
            lines.append(line)
            continue
        exact = next((place for place in range(at, len(printed)) if like(line, printed[place])), None)
        if exact is not None:
            lines.append(line)
            at = exact + 1
        elif at < len(printed):
            best = max(range(at, len(printed)), key=lambda place: difflib.SequenceMatcher(None, line, printed[place]).ratio())
            lines.append(printed[best])
            at = best + 1
    return lines


class Docs:

    def __init__(self, program, source, quick, update):
        self.program, self.source, self.faults, self.ran, self.skipped = program, source, [], 0, 0
        self.quick, self.update, self.replaced = quick, update, []

    def fault(self, page, number, what):
        self.faults.append(f"{page}:{number}: {what}")

    def run(self, page, text):
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(os.path.join(self.source, "tests/docs/files")):
                shutil.copy(os.path.join(self.source, "tests/docs/files", name), folder)
            os.makedirs(os.path.join(folder, "bin"))
            os.makedirs(os.path.join(folder, "tools"))
            for name in ("bin/trireme", "tools/run"):
                os.symlink(self.program, os.path.join(folder, name))
            environment = dict(os.environ, PATH=os.path.join(folder, "bin") + ":" + os.environ["PATH"], LC_ALL="C.UTF-8")
            for step in steps(text):
                if step.skipped or (self.quick and step.slow):
                    self.look_up(page, step, folder, environment)
                    continue
                self.ran += 1
                done = subprocess.run(["sh", "-c", step.command], cwd=folder, env=environment, capture_output=True, text=True,
                                      timeout=280, check=False)
                if done.returncode != step.code:
                    self.fault(page, step.number, f"{step.command}: exit code {done.returncode}: {done.stderr.strip()}")
                elif step.shown:
                    line = missing_line(step.shown, done.stdout.split("\n"))
                    if line is not None and self.update:
                        self.replaced.append((step.shown, nearest_lines(step.shown, done.stdout.split("\n"))))
                    elif line is not None:
                        self.fault(page, step.number, f"{step.command}: does not print: {line}\n--- it prints\n{done.stdout}")

    def look_up(self, page, step, folder, environment):
        """A command that cannot run here has options that exist."""
        self.skipped += 1
        words = step.command.split(" -- ")[0].split()[1:]
        commands = words[:2] if words and words[0] == "topo" else words[:1]
        shown = subprocess.run(["trireme", *commands, "--help"], cwd=folder, env=environment, capture_output=True, text=True,
                               executable=self.program, check=False)
        if shown.returncode != 0:
            self.fault(page, step.number, f"{step.command}: is no command")
        for option in re.findall(r"(?<=\s)--[a-z0-9-]+", " " + " ".join(words)):
            if not re.search(re.escape(option) + r"\b", shown.stdout):
                self.fault(page, step.number, f"{step.command}: has no {option}")

    def links(self, page, text):
        plain = re.sub(r"```.*?```", "", text, flags=re.S)
        for number, line in enumerate(plain.split("\n"), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+://", target):
                    continue
                path, _, heading = target.partition("#")
                file = os.path.normpath(os.path.join(self.source, os.path.dirname(page), path)) if path else os.path.join(
                    self.source, page)
                if not os.path.exists(file):
                    self.fault(page, number, f"link to {target}: there is no such file")
                elif heading and heading not in headings(file):
                    self.fault(page, number, f"link to {target}: there is no such heading")
            for path in re.findall(r"`((?:docs|tests|tools|planner|core|models|topologies|sim|runtime|api|python)/[\w./-]+\.\w+)`", line):
                if not os.path.exists(os.path.join(self.source, path)):
                    self.fault(page, number, f"`{path}`: there is no such file")


def headings(file):
    with open(file, encoding="utf-8") as text:
        lines = [line for line in text if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-") for line in lines}


def main():
    program, source, *pages = [word for word in sys.argv[1:] if not word.startswith("--")]
    pages = pages or sorted(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] +
                            ["docs/" + name for name in os.listdir(os.path.join(source, "docs")) if name.endswith(".md")])
    docs = Docs(os.path.abspath(program), os.path.abspath(source), "--quick" in sys.argv, "--update" in sys.argv)
    for page in pages:
        with open(os.path.join(source, page), encoding="utf-8") as file:
            text = file.read()
        docs.run(page, text)
        docs.links(page, text)
        for old, new in docs.replaced:
            indent = "    " if "    " + old[0] + "\n" in text else ""
            placed = [("\n".join(indent + line if line else line for line in lines)) for lines in (old, new)]
            text = text.replace(*placed)
        if docs.replaced:
            with open(os.path.join(source, page), "w", encoding="utf-8") as file:
                file.write(text)
            docs.replaced = []
    for fault in docs.faults:
        print(fault)
    print(f"{len(pages)} pages, {docs.ran} commands run, {docs.skipped} looked up, {len(docs.faults)} faults")
    return 1 if docs.faults else 0


if __name__ == "__main__":
    sys.exit(main())
