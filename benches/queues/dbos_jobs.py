"""The jobs of run.py as workflows of DBOS.

    dbos_jobs.py prepare URL                make the tables
    dbos_jobs.py submit URL COUNT           enqueue jobs
    dbos_jobs.py work URL CONCURRENCY       execute jobs until killed
"""

import os
import sys
import time

from dbos import DBOS, DBOSClient

VERSION = "1"


def launch(url, **limits):
    config = {
        "name": "bench",
        "system_database_url": url,
        "run_admin_server": False,
        "log_level": "ERROR",
        "application_version": VERSION,
        "executor_id": str(os.getpid()),
    }
    DBOS(config=config)

    @DBOS.step()
    def append(number):
        with open(f"out-{number}.txt", "a") as file:
            file.write("x\n")

    @DBOS.workflow(name="job")
    def job(number):
        append(number)
        return number

    DBOS.launch()
    DBOS.register_queue("jobs", polling_interval_sec=0.1, **limits)


def main():
    what, url = sys.argv[1:3]
    if what == "prepare":
        launch(url)
    elif what == "submit":
        client = DBOSClient(system_database_url=url)
        options = {"queue_name": "jobs", "workflow_name": "job", "app_version": VERSION, "application_name": "bench"}
        for number in range(int(sys.argv[3])):
            client.enqueue(options, number)
    else:
        launch(url, worker_concurrency=int(sys.argv[3]))
        while True:
            time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main()
