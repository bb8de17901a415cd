"""A backlog of millions of records is loaded while something is killed all the time: `python -m faults.jobs.load`, or `make soak-load`.

Prints how fast it was, how soon it went on after each kill and how much memory the write tasks took, and checks every record at the end.
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

import topics
from faults.jobs import order_producer, orders
from faults.jobs.crashing_servers import Servers
from faults.jobs.figures import Figures, recoveries, spread
from faults.jobs.job_faults import ANY, Fault, Kind, Striker
from faults.jobs.job_verdict import verdict
from faults.jobs.rounds import Rounds
from faults.jobs.sampling import TENTHS, Sampler
from faults.jobs.write_progress import PUBLISHED, Witness
from tideline import settings

NAME = "soak"
IN_TURN = (Kind.JVM, Kind.DRIVER, Kind.WORKER, Kind.POSTMASTER, Kind.BROKER)
_PRODUCERS = 2
_OVERHEAD_BYTES = 250
"""Of a record, beside its note: fields, and what Kafka and Postgres put around them."""
_COPIES = 5
"""Log, staging, output, and room for Postgres' own log."""
_MEMORY_BYTES = 6 << 30


def main() -> int:
    """Load, kill, check, report."""
    asked = _asked()
    _check_machine(asked)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the servers' data would stay behind
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=settings.PROJECT / ".local"))
    folder.chmod(0o755)  # Postgres runs as another user where this runs as root
    servers = Servers(folder / "servers")
    try:
        with servers.running():
            report = _soak(asked, servers, folder / "logs")
    except BaseException:
        print(f"FAILED with seed {asked.seed}; the logs of the write tasks: {folder / 'logs'}", file=sys.stderr)
        raise
    else:
        shutil.rmtree(folder / "logs")
    finally:
        shutil.rmtree(servers.folder)
        if not any(folder.iterdir()):
            folder.rmdir()
    _tell(report)
    if asked.report:
        asked.report.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if report["violations"] else 0


def _asked() -> argparse.Namespace:
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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the figures there as JSON")
    return parser.parse_args()


def _check_machine(asked: argparse.Namespace) -> None:
    needed = asked.records * (_OVERHEAD_BYTES + (asked.smallest + asked.largest) // 2) * _COPIES
    free = shutil.disk_usage(settings.PROJECT).free
    if needed > free:
        sys.exit(
            f"{asked.records:,} records need about {needed / 1e9:.0f} GB of disk, {free / 1e9:.0f} GB are free: ask for fewer"
        )
    memory = psutil.virtual_memory().available
    if memory < _MEMORY_BYTES:
        sys.exit(f"{_MEMORY_BYTES / 1e9:.0f} GB of memory are needed, {memory / 1e9:.0f} GB are free")


def _soak(asked: argparse.Namespace, servers: Servers, logs: Path) -> dict[str, Any]:
    os.environ.update(servers.variables())
    topics.created(AdminClient({"bootstrap.servers": servers.bootstrap}), NAME, partitions=asked.partitions)
    begin = time.monotonic()
    _produce(asked, servers.bootstrap)
    _say(f"{asked.records:,} records produced in {time.monotonic() - begin:.0f} s")
    limits = {"batch_records": asked.batch_records, "run_batches": 8}
    orders.declare(servers.pipelines / NAME, NAME, limits=limits)
    rounds = Rounds(NAME, variables=servers.variables(), logs=logs, master=asked.master, refill=lambda: False)
    sampler = Sampler(servers.url, NAME, asked.records, lambda: rounds.current)
    witness = Witness(servers.url)
    try:
        begin = time.monotonic()
        rounds.start()
        sampler.start()
        figures = _kill_in_turn(asked, Striker(servers, rounds, witness), rounds)
        seconds = time.monotonic() - begin
        published = [at for (at,) in witness.rows(PUBLISHED, NAME)]
    finally:
        rounds.stop()
        sampler.stop()
        witness.close()
    figures.codes = rounds.codes
    figures.recovery_s = recoveries(figures.recovery_s, published)
    _say(f"loaded in {seconds:.0f} s with {figures.kills} kills; now each record is checked")
    return _report(asked, figures, seconds, sampler) | _check(servers)


def _produce(asked: argparse.Namespace, bootstrap: str) -> None:
    shares = [asked.records // _PRODUCERS + (number < asked.records % _PRODUCERS) for number in range(_PRODUCERS)]
    with ProcessPoolExecutor(_PRODUCERS, multiprocessing.get_context("spawn")) as pool:
        sent = [pool.submit(_fill, bootstrap, number, count, asked) for number, count in enumerate(shares)]
        for share in sent:
            share.result()


def _fill(bootstrap: str, number: int, count: int, asked: argparse.Namespace) -> None:
    rng = Random(asked.seed * _PRODUCERS + number)
    made = orders.records(rng, count, smallest=asked.smallest, largest=asked.largest)
    order_producer.fill(bootstrap, NAME, made, asked.partitions)


def _kill_in_turn(asked: argparse.Namespace, striker: Striker, rounds: Rounds) -> Figures:
    """Until everything is through; the figures have the time of each end instead of a recovery."""
    figures = Figures(schedules=1)
    kinds = cycle(IN_TURN)
    wanted = time.monotonic() + asked.kill_every
    while rounds.alive():
        if time.monotonic() > wanted:
            fault = Fault(kind=next(kinds), moment=ANY, seconds=0, down=1, held=False, which=0, same_task=True)
            killed = striker.strike(fault)
            _say(f"{fault.kind}")
            figures.count(fault, killed)
            wanted = time.monotonic() + asked.kill_every
        time.sleep(0.2)
    rounds.check()
    return figures


def _check(servers: Servers) -> dict[str, Any]:
    begin = time.monotonic()
    broken, shown = verdict(servers, NAME)
    return {
        "checked": shown,
        "check_s": round(time.monotonic() - begin),
        "check_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "violations": [str(violation) for violation in broken],
    }


def _report(asked: argparse.Namespace, figures: Figures, seconds: float, sampler: Sampler) -> dict[str, Any]:
    peaks = [{part: round(used) for part, used in peak.items()} for peak in sampler.peaks]
    halves = [
        max((peak.get("all", 0) for peak in half), default=0) for half in (peaks[: TENTHS // 2], peaks[TENTHS // 2 :])
    ]
    return {
        "records": asked.records,
        "seconds": round(seconds),
        "records_per_s": round(asked.records / seconds),
        "kills": figures.kills,
        "faults": dict(figures.faults),
        "exit_codes": {str(code): count for code, count in sorted(figures.codes.items())},
        "recovery_s": spread(figures.recovery_s),
        "peak_mb_per_tenth": peaks,
        "later_half_takes": round(halves[1] / halves[0], 2) if halves[0] else None,
    }


def _tell(report: dict[str, Any]) -> None:
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


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
