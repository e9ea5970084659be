#!/usr/bin/env python3
"""Measures queues of short runs on PostgreSQL: Harn and DBOS, one after the other, with the same jobs.

    python3 benches/queues/run.py --harn target/release/harn --jobs 1000 --workers 4

Each job appends a line to a file, as one recorded effect (Harn) or step (DBOS). It needs PostgreSQL (Debian's package) and installs
DBOS from PyPI into an environment below the target folder. The server is a new one with its default settings, so each commit
reaches the disk; each system gets an empty database. A round is: submit all jobs in one batch each, then start the workers; the time
of completion runs from their start to the end of the last job.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGES = ["dbos==3.4.0", "psycopg[binary]==3.3.9"]
TICKS = os.sysconf("SC_CLK_TCK")


def environment_of_others():
    """Python with DBOS, installed below the target folder."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve() / "queues-others" / "venv"
    python, known = folder / "bin" / "python", folder / "packages.txt"
    if not known.exists() or known.read_text() != "\n".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        known.write_text("\n".join(PACKAGES))
    return python


class Server:
    """A PostgreSQL server in a folder of its own. It refuses to run as root, so then it runs as the user postgres."""

    def __init__(self):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        program = found[-1] if found else shutil.which("initdb")
        if not program:
            raise SystemExit("there is no PostgreSQL server here: `make postgres` installs one")
        self.bin = Path(program).parent
        self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        self.folder = Path(tempfile.mkdtemp(prefix="harn-bench-", dir="/tmp"))
        if self.user:
            shutil.chown(self.folder, "postgres", "postgres")
        self.call("initdb", "-A", "trust", "-U", "bench", "-E", "UTF8", "--locale=C", "-D", self.folder / "data")
        options = f"-c listen_addresses= -c max_connections=200 -k {self.folder}"
        self.call("pg_ctl", "start", "-w", "-D", self.folder / "data", "-l", self.folder / "log", "-o", options)
        self.pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def call(self, program, *args):
        command = [*self.user, str(self.bin / program), *map(str, args)]
        ran = subprocess.run(command, cwd="/", capture_output=True, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"{program}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def sql(self, database, text):
        return self.call("psql", "-X", "-q", "-A", "-t", "-h", self.folder, "-U", "bench", "-d", database, "-c", text).strip()

    def database(self, name):
        self.sql("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.sql("postgres", f"CREATE DATABASE {name}")

    def stop(self):
        self.call("pg_ctl", "stop", "-w", "-m", "immediate", "-D", self.folder / "data")
        shutil.rmtree(self.folder, ignore_errors=True)


def processes():
    """Parent, processor seconds (with those of children that have ended) and resident KiB of each process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        cpu = sum(map(int, fields[11:15])) / TICKS
        found[int(path.name)] = (int(fields[1]), cpu, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") // 1024)
    return found


def used(roots):
    """Processor seconds and resident KiB of processes and all below them."""
    every = processes()
    tree, grown = set(roots), True
    while grown:
        more = {pid for pid, (parent, _, _) in every.items() if parent in tree} - tree
        tree |= more
        grown = bool(more)
    own = [every[pid] for pid in tree if pid in every]
    return sum(cpu for _, cpu, _ in own), sum(memory for _, _, memory in own)


class System:
    def __init__(self, given, server, folder):
        self.given, self.server, self.folder = given, server, Path(folder)
        self.folder.mkdir()
        self.database = f"bench_{self.name.lower()}"
        server.database(self.database)
        self.prepare()

    def run(self, command):
        ran = subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ran.returncode != 0:
            raise SystemExit(f"{self.name}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")


class Harn(System):
    name = "Harn"

    def prepare(self):
        url = f"postgres://bench@{str(self.server.folder).replace('/', '%2F')}/{self.database}"
        (self.folder / "main.harn").write_text('append_file("out-${argv[0]}.txt", "x\\n")\n')
        (self.folder / "harn.toml").write_text(f'[store]\nurl = "{url}"\n')
        lines = "".join(json.dumps({"args": [str(n)]}) + "\n" for n in range(self.given.jobs))
        (self.folder / "jobs.jsonl").write_text(lines)
        # Creates the tables.
        self.run([self.given.harn, "runs", "list"])

    def submit(self):
        self.run([self.given.harn, "submit", "--input-file", "jobs.jsonl", "main.harn"])

    def worker(self):
        command = [self.given.harn, "worker", "--concurrency", str(self.given.concurrency)]
        return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def open(self):
        """Runs that have not ended successfully."""
        return int(self.server.sql(self.database, "SELECT count(*) FROM harn.run WHERE status <> 3"))


class Dbos(System):
    name = "DBOS"

    def prepare(self):
        self.url = f"postgresql://bench@/{self.database}?host={self.server.folder}"
        self.program = Path(__file__).with_name("dbos_jobs.py").resolve()
        self.python = environment_of_others()
        self.run([self.python, self.program, "prepare", self.url])

    def submit(self):
        self.run([self.python, self.program, "submit", self.url, self.given.jobs])

    def worker(self):
        command = [self.python, self.program, "work", self.url, self.given.concurrency]
        return subprocess.Popen(list(map(str, command)), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def open(self):
        return int(self.server.sql(self.database, "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'"))


def measure(system):
    given, server = system.given, system.server
    size = lambda: int(server.sql(system.database, f"SELECT pg_database_size('{system.database}')"))
    before = size()
    begin = time.perf_counter()
    system.submit()
    submitted = time.perf_counter() - begin
    server_before, _ = used([server.pid])
    begin = time.perf_counter()
    workers = [system.worker() for _ in range(given.workers)]
    memory, cpu = 0, 0.0
    while system.open() > 0:
        if time.perf_counter() - begin > given.limit:
            raise SystemExit(f"{system.name}: {system.open()} jobs are open after {given.limit} s")
        now_cpu, now_memory = used([worker.pid for worker in workers])
        memory, cpu = max(memory, now_memory), max(cpu, now_cpu)
        time.sleep(0.1)
    took = time.perf_counter() - begin
    cpu = max(cpu, used([worker.pid for worker in workers])[0])
    server_cpu = used([server.pid])[0] - server_before
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    server.sql(system.database, "CHECKPOINT")
    return {
        "system": system.name, "jobs": given.jobs, "workers": given.workers,
        "submitted_per_second": given.jobs / submitted, "completed_per_second": given.jobs / took,
        "cpu_ms_per_job": cpu / given.jobs * 1000, "server_cpu_ms_per_job": server_cpu / given.jobs * 1000,
        "memory_mib": memory / 1024, "bytes_per_job": (size() - before) / given.jobs,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harn", default="target/release/harn")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=4, help="jobs of a worker at once")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300, help="seconds for the jobs of a round")
    parser.add_argument("--only", choices=["Harn", "DBOS"])
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    given.harn = str(Path(given.harn).resolve())
    systems = [system for system in (Harn, Dbos) if given.only in (None, system.name)]
    server, results = Server(), []
    print(f"{given.jobs} jobs, {given.workers} workers with {given.concurrency} jobs at once, {os.cpu_count()} cores")
    print("system  submit/s  complete/s  cpu ms/job  server ms/job  memory MiB  bytes/job")
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number in range(given.rounds):
                for system in systems:
                    found = measure(system(given, server, Path(folder) / f"{system.name}{number}"))
                    results.append(found)
                    print(
                        f"{found['system']:<7} {found['submitted_per_second']:>8.0f} {found['completed_per_second']:>11.1f}"
                        f" {found['cpu_ms_per_job']:>11.2f} {found['server_cpu_ms_per_job']:>14.2f} {found['memory_mib']:>11.0f}"
                        f" {found['bytes_per_job']:>10.0f}",
                        flush=True,
                    )
    finally:
        server.stop()
    best = {system.name: max(r["completed_per_second"] for r in results if r["system"] == system.name) for system in systems}
    if len(best) == 2:
        print(f"Harn completes {best['Harn'] / best['DBOS']:.2f} times the jobs of DBOS per second (best rounds)")
    if given.json:
        Path(given.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
