"""Load a backlog of millions of records while processes are killed again and again: `python -m faults.jobs.load`, or
`make soak-load`.

Prints the throughput, the recovery time after each kill and the memory of the write tasks. Checks every record at the
end.
"""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient

from faults.jobs import order_producer, orders, read_back
from faults.jobs.crashing_servers import Servers
from faults.jobs.drawn_faults import ANY, Fault, Kind
from faults.jobs.figures import Figures, recoveries, spread
from faults.jobs.job_faults import Striker
from faults.jobs.job_verdict import verdict
from faults.jobs.order_outputs import Output, Sink
from faults.jobs.rounds import Rounds
from faults.jobs.sampling import TENTHS, Sampler
from faults.jobs.write_progress import PUBLISHED, Witness
from given_topics import topics
from tideline import settings

NAME = "soak"
IN_TURN = (Kind.JVM, Kind.DRIVER, Kind.WORKER, Kind.POSTMASTER, Kind.BROKER)
_PRODUCERS = 2
_OVERHEAD_BYTES = 250
"""Bytes of a record in addition to its note: fields, and the overhead of Kafka and Postgres."""
_COPIES = 5
"""Copies of each record: Kafka's log, staging, output, and room for Postgres' write-ahead log."""
_MEMORY_BYTES = 6 << 30


def main() -> int:
    """Load, kill, check, report."""
    arguments = _arguments()
    _check_machine(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers' data is deleted
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=settings.PROJECT / ".local"))
    folder.chmod(0o755)  # Postgres runs as another user if this runs as root
    servers = Servers(folder / "servers")
    try:
        with servers.running():
            report = _soak(arguments, servers, folder / "logs")
    except BaseException:
        print(f"FAILED with seed {arguments.seed}; the logs of the write tasks: {folder / 'logs'}", file=sys.stderr)
        raise
    else:
        shutil.rmtree(folder / "logs")
    finally:
        shutil.rmtree(servers.folder)
        if not any(folder.iterdir()):
            folder.rmdir()
    _print_report(report)
    if arguments.report:
        arguments.report.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if report["violations"] else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument(
        "--smallest", type=int, default=60, help="characters of a record's note; the other fields take about 90 bytes"
    )
    parser.add_argument("--largest", type=int, default=660)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--batch-records", type=int, default=500_000, help="most offsets of one batch")
    parser.add_argument("--kill-every", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument(
        "--sink", choices=[sink.name.lower() for sink in Sink], default="append", help="what the rows are written to"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the figures to FILE as JSON")
    return parser.parse_args()


def _check_machine(arguments: argparse.Namespace) -> None:
    needed = arguments.records * (_OVERHEAD_BYTES + (arguments.smallest + arguments.largest) // 2) * _COPIES
    free = shutil.disk_usage(settings.PROJECT).free
    if needed > free:
        sys.exit(
            f"{arguments.records:,} records need about {needed / 1e9:.0f} GB of disk, {free / 1e9:.0f} GB are free: choose fewer"
        )
    memory = psutil.virtual_memory().available
    if memory < _MEMORY_BYTES:
        sys.exit(f"{_MEMORY_BYTES / 1e9:.0f} GB of memory are needed, {memory / 1e9:.0f} GB are free")


def _soak(arguments: argparse.Namespace, servers: Servers, logs: Path) -> dict[str, Any]:
    os.environ.update(servers.variables())
    topics.created(AdminClient({"bootstrap.servers": servers.bootstrap}), NAME, partitions=arguments.partitions)
    begin = time.monotonic()
    _produce(arguments, servers.bootstrap)
    _log(f"{arguments.records:,} records produced in {time.monotonic() - begin:.0f} s")
    limits = {"batch_records": arguments.batch_records, "run_batches": 8}
    output = Output(pipeline=NAME, sink=Sink[arguments.sink.upper()], lakes=servers.folder / "lakes")
    read_back.create_topics(output, servers.bootstrap)
    orders.declare(servers.pipelines / NAME, NAME, output, limits=limits)
    rounds = Rounds(NAME, variables=servers.variables(), logs=logs, master=arguments.master, refill=lambda: False)
    sampler = Sampler(servers.url, NAME, arguments.records, lambda: rounds.current)
    witness = Witness(servers.url)
    try:
        begin = time.monotonic()
        rounds.start()
        sampler.start()
        figures = _kill_in_turn(arguments, Striker(servers, rounds, witness), rounds)
        seconds = time.monotonic() - begin
        published = [at for (at,) in witness.rows(PUBLISHED, NAME)]
    finally:
        rounds.stop()
        sampler.stop()
        witness.close()
    figures.codes = rounds.codes
    figures.recovery_s = recoveries(figures.recovery_s, published)
    _log(f"loaded in {seconds:.0f} s with {figures.kills} kills; now checking each record")
    return _report(arguments, figures, seconds, sampler) | _check(servers, output)


def _produce(arguments: argparse.Namespace, bootstrap: str) -> None:
    shares = [
        arguments.records // _PRODUCERS + (number < arguments.records % _PRODUCERS) for number in range(_PRODUCERS)
    ]
    with ProcessPoolExecutor(_PRODUCERS, multiprocessing.get_context("spawn")) as pool:
        sent = [pool.submit(_fill, bootstrap, number, count, arguments) for number, count in enumerate(shares)]
        for share in sent:
            share.result()


def _fill(bootstrap: str, number: int, count: int, arguments: argparse.Namespace) -> None:
    rng = Random(arguments.seed * _PRODUCERS + number)
    made = orders.records(rng, count, smallest=arguments.smallest, largest=arguments.largest)
    order_producer.fill(bootstrap, NAME, made, arguments.partitions)


def _kill_in_turn(arguments: argparse.Namespace, striker: Striker, rounds: Rounds) -> Figures:
    """Kill in turn until everything is loaded. The figures hold the time of each fault's end instead of a recovery
    time."""
    figures = Figures(schedules=1)
    kinds = cycle(IN_TURN)
    wanted = time.monotonic() + arguments.kill_every
    while rounds.alive():
        if time.monotonic() > wanted:
            fault = Fault(kind=next(kinds), moment=ANY, seconds=0, down=1, held=False, which=0, same_task=True)
            killed = striker.strike(fault)
            _log(f"{fault.kind}")
            figures.count(fault, killed)
            wanted = time.monotonic() + arguments.kill_every
        time.sleep(0.2)
    rounds.check()
    return figures


def _check(servers: Servers, output: Output) -> dict[str, Any]:
    begin = time.monotonic()
    broken, shown = verdict(servers.url, servers.bootstrap, output)
    return {
        "checked": shown,
        "check_s": round(time.monotonic() - begin),
        "check_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "violations": [str(violation) for violation in broken],
    }


def _report(arguments: argparse.Namespace, figures: Figures, seconds: float, sampler: Sampler) -> dict[str, Any]:
    peaks = [{part: round(used) for part, used in peak.items()} for peak in sampler.peaks]
    halves = [
        max((peak.get("all", 0) for peak in half), default=0) for half in (peaks[: TENTHS // 2], peaks[TENTHS // 2 :])
    ]
    return {
        "sink": arguments.sink,
        "records": arguments.records,
        "seconds": round(seconds),
        "records_per_s": round(arguments.records / seconds),
        "kills": figures.kills,
        "faults": dict(figures.faults),
        "exit_codes": {str(code): count for code, count in sorted(figures.codes.items())},
        "recovery_s": spread(figures.recovery_s),
        "peak_mb_per_tenth": peaks,
        "later_half_takes": round(halves[1] / halves[0], 2) if halves[0] else None,
    }


def _print_report(report: dict[str, Any]) -> None:
    print(
        f"{report['records']:,} records in {report['seconds']} s: {report['records_per_s']:,} records/s, {report['kills']} processes killed"
    )
    print(
        "from the end of a fault to the next batch, s: "
        + ", ".join(f"{name} {value}" for name, value in report["recovery_s"].items())
    )
    print("exit codes of write tasks: " + ", ".join(f"{code}: {count}" for code, count in report["exit_codes"].items()))
    print(
        "peak memory of the write task per tenth of the backlog, MB: "
        + " ".join(str(peak.get("all", "-")) for peak in report["peak_mb_per_tenth"])
    )
    print(f"the later half takes {report['later_half_takes']} times the memory of the earlier one")
    print(
        f"{report['checked']:,} records checked in {report['check_s']} s (peak {report['check_peak_mb']} MB): {len(report['violations'])} violations"
    )
    print("\n".join(report["violations"]))


def _log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
