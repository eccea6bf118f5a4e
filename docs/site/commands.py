"""`commands.py PROGRAM..`: the help of each program and of its commands as a page, on standard output."""

import os
import subprocess
import sys
from pathlib import Path


def asked(program, *words):
    done = subprocess.run([program, *words, "--help"], env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, check=True)
    # The settings of `train` stand in its help alone: they are too many for a page.
    text = done.stdout.split("\nSettings, with the values")[0]
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def main(programs):
    print("# Commands\n\nThe help of the programs. `llm-train train --help` also lists every setting.")
    for program in programs:
        name, whole = Path(program).name, asked(program)
        print(f"\n## {name}\n\n```text\n{whole}\n```")
        listed = whole.split("\nCommands:\n")[1].split("\n\n")[0].splitlines()
        commands = [line.split()[0] for line in listed if line.startswith("  ") and not line.startswith("   ")]
        for command in commands:
            if command != "help":
                print(f"\n### {name} {command}\n\n```text\n{asked(program, command)}\n```")


if __name__ == "__main__":
    main(sys.argv[1:])
