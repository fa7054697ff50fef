"""Where ledgers lie in tests: files, and databases of a PostgreSQL server that the tests start."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def programs():
    """The folder of PostgreSQL's programs; None where there is none."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *map(Path, os.environ["PATH"].split(os.pathsep))]
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


class Server:
    """A server with a folder of its own, which takes connections through a socket in it and from nowhere else."""

    def __init__(self, folder, bin):
        self.folder, self.bin, self.databases = folder, bin, 0
        # PostgreSQL refuses to run as root, so whoever is root lends the folder to nobody.
        self.user = {"user": "nobody"} if os.getuid() == 0 else {}
        if self.user:
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
        self.run("initdb", "-D", folder / "data", "-A", "trust", "-U", "tester", "--no-sync")
        self.start()

    def run(self, program, *arguments):
        command = [self.bin / program, *arguments]
        done = subprocess.run(command, cwd=self.folder, **self.user, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout

    def start(self):
        sockets = f"-k {self.folder} -c listen_addresses="
        self.run(
            "pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-o", sockets, "-w", "-t", "300", "start"
        )

    def stop(self, how="immediate"):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", how, "-w", "-t", "300", "stop")

    def database(self):
        """The URL of a new database."""
        self.databases += 1
        name = f"test{self.databases}"
        self.run("createdb", "-h", self.folder, "-U", "tester", name)
        return f"postgresql://tester@/{name}?host={self.folder}"


@pytest.fixture(scope="session")
def server():
    pytest.importorskip("sqlalchemy", reason="the extra ledger is not installed")
    pytest.importorskip("psycopg", reason="the extra ledger is not installed")
    bin = programs()
    if bin is None:
        pytest.skip("there is no PostgreSQL server on this machine")
    folder = Path(tempfile.mkdtemp(prefix="tightdp"))  # a socket's path must be short
    running = Server(folder, bin)
    yield running
    running.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """Where a ledger may be made, in either store."""
    if request.param == "sqlite":
        return str(tmp_path / "test.ledger")
    return request.getfixturevalue("server").database()
