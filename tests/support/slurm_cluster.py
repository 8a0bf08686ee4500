#!/usr/bin/env python3
"""A real Slurm of one node on this machine, for tests.

  slurm_cluster.py start FOLDER      everything in FOLDER; clients use SLURM_CONF=FOLDER/slurm.conf
  slurm_cluster.py restart-node FOLDER   the node's daemon again, after a test killed it
  slurm_cluster.py stop FOLDER

It runs as root, listens on 127.0.0.1 only, on ports that were free, and keeps no accounts. Exit 0 once the node takes
jobs, 1 with the end of the logs if it does not, 77 with the reason where it cannot run at all.
"""
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
PATIENCE = 20  # seconds for one step; each takes a fraction of one


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.conf = self.folder / "slurm.conf"
        # munged asks that everyone can reach its socket, and folders of tests are their owner's alone.
        mark = hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]
        self.socket = pathlib.Path(tempfile.gettempdir()) / f"gptqb_munge_{mark}" / "socket"
        self.host = socket.gethostname().split(".")[0]
        self.environment = dict(os.environ, SLURM_CONF=str(self.conf))

    def pid_file(self, name):
        return self.folder / f"{name}.daemon"

    def log(self, name):
        return self.folder / f"{name}.log"

    def spawn(self, name, *words):
        with open(self.log(name), "ab") as log:
            # A session of its own: the Ctrl-C of a terminal is for the tests.
            daemon = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment,
                                      start_new_session=True)
        self.pid_file(name).write_text(str(daemon.pid))

    def output_of(self, *words):
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def wait(self, what, holds):
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                for name in ("munged", "slurmctld", "slurmd"):
                    if self.log(name).exists():
                        print(f"--- {name}\n" + self.log(name).read_text(errors="replace")[-1500:], file=sys.stderr)
                sys.exit(f"slurm_cluster: waited {PATIENCE} s for {what}")
            time.sleep(0.05)

    def write_configuration(self):
        ports = []
        for _ in range(2):
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            ports.append(listener)
        controller, node = (listener.getsockname()[1] for listener in ports)
        for listener in ports:
            listener.close()
        settings = {
            "ClusterName": "gptqb",
            "SlurmctldHost": "localhost(127.0.0.1)",
            "SlurmctldPort": controller,
            "SlurmdPort": node,
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.socket}",
            "CredType": "cred/munge",
            "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
            "StateSaveLocation": self.folder / "state",
            "SlurmdSpoolDir": self.folder / "spool",
            "SlurmctldPidFile": self.folder / "slurmctld.pid",
            "SlurmdPidFile": self.folder / "slurmd.pid",
            # No cgroups: a container may not have them to give.
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "SwitchType": "switch/none",
            "MpiDefault": "none",
            "JobAcctGatherType": "jobacct_gather/none",
            "AccountingStorageType": "accounting_storage/none",
            "JobCompType": "jobcomp/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU",
            "SchedulerType": "sched/backfill",
            # Start what can start at once; the defaults batch up for seconds.
            "SchedulerParameters": "sched_min_interval=100000,batch_sched_delay=0,bf_interval=1",
            "ReturnToService": 2,
            "SlurmdParameters": "config_overrides",
            "SlurmdTimeout": 10,
            "SlurmctldTimeout": 10,
            "MessageTimeout": 3,
            "BatchStartTimeout": 1,
            "KillWait": 2,
        }
        lines = [f"{key}={value}" for key, value in settings.items()]
        lines.append(f"NodeName={self.host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN")
        lines.append(f"PartitionName=main Nodes={self.host} Default=YES MaxTime=INFINITE State=UP")
        self.conf.write_text("\n".join(lines) + "\n")

    def node_state(self):
        return (self.output_of("sinfo", "--noheader", "--format=%T") or "").strip()

    def start_node(self):
        self.spawn("slurmd", "slurmd", "-D", "-f", str(self.conf), "-N", self.host)

    def start(self):
        os.umask(0o022)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(exist_ok=True)
        self.socket.parent.mkdir(exist_ok=True)
        self.socket.parent.chmod(0o755)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        self.write_configuration()
        self.spawn("munged", "munged", "--foreground", f"--key-file={key}", f"--socket={self.socket}",
                   f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed")
        self.wait("munged", lambda: self.output_of("munge", "-S", str(self.socket), "-n") is not None)
        self.spawn("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        self.wait("slurmctld", lambda: "is UP" in (self.output_of("scontrol", "ping") or ""))
        self.start_node()
        self.wait("the node", lambda: self.node_state() == "idle")

    def restart_node(self):
        self.start_node()
        self.wait("the node", lambda: self.node_state() in ("idle", "mixed", "allocated"))

    def stop(self):
        self.output_of("scancel", "--user=root")
        end = time.monotonic() + 5
        while self.output_of("squeue", "--noheader") and time.monotonic() < end:
            time.sleep(0.05)
        for name in ("slurmd", "slurmctld", "munged"):
            if self.pid_file(name).exists():
                end_process(int(self.pid_file(name).read_text()))
        shutil.rmtree(self.socket.parent, ignore_errors=True)


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def end_process(pid):
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 5
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        while alive(pid) and time.monotonic() < end:
            time.sleep(0.02)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("start", "restart-node", "stop"):
        sys.exit(__doc__)
    cluster = Cluster(sys.argv[2])
    if sys.argv[1] == "start":
        absent = [program for program in PROGRAMS if shutil.which(program) is None]
        reason = "it starts Slurm's daemons, which takes root" if os.geteuid() != 0 else ""
        if absent:
            reason = "scripts/setup installs what is missing: " + ", ".join(absent)
        if reason:
            print(reason)
            sys.exit(77)
        cluster.start()
    elif sys.argv[1] == "restart-node":
        cluster.restart_node()
    else:
        cluster.stop()


if __name__ == "__main__":
    main()
