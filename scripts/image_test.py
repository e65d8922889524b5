"""Builds the CPU image with buildah, runs it as a container would be run, and reports.

    make image-test

It needs root, and Debian's packages buildah, bubblewrap, curl, python3-pip and, where no registry
can be reached, mmdebstrap: then Debian 12 is bootstrapped from apt's own sources and is the base.
pip's settings of this machine (index, extra indexes, links, certificate) go into the build, too.

The container has its own processes, network, shared memory and /tmp, no capability, and a root that
cannot be written to. What it cannot show is Docker's filter of system calls.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
SAMPLE = ROOT / "src" / "conch" / "samples" / "tiger.ogg"
IN_SAMPLE = "tiger"
"""A word of the text of SAMPLE."""

IMAGE, OWN_BASE = "localhost/conch", "localhost/bookworm"
REGISTRY_BASE = "docker.io/library/debian:bookworm-slim"
USER = 10_001
KEY = "image-test-0123456789abcdef"
URL = "http://127.0.0.1:9000"
PROGRAMS = {"buildah": "buildah", "bwrap": "bubblewrap", "curl": "curl", "nsenter": "util-linux"}
"""Debian package by program."""
ABSENT = ("usr/bin/gcc", "usr/bin/cc", "opt/pip", "root/.cache", "src")
"""What an image for running has no use for."""
PIP_SETTINGS = ("index-url", "extra-index-url", "find-links", "cert")
START_S, STOP_S, HEAL_S, ANSWER_S = 400.0, 70.0, 180.0, 180.0
SHM_BYTES = 1 << 30

REPEATS = 4
LONGER = """
import sys
from importlib.resources import files
import numpy, soundfile
samples, rate = soundfile.read(str(files("conch") / "samples" / "tiger.ogg"))
soundfile.write(sys.argv[1], numpy.tile(samples, int(sys.argv[2])), rate)
"""
"""Writes the sample several times, one after the other, as a file that takes seconds."""

Json = dict[str, Any]


def say(text: str) -> None:
    print(f"image-test: {text}", flush=True)


def run(*command: str | Path) -> str:
    """Run a program and return what it prints; a failure, whose errors were shown, ends this."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"image-test: {' '.join(map(str, command[:4]))} … failed")
    output: str = done.stdout
    return output.strip()


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Wait for a condition and return how many seconds it took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)
    return time.monotonic() - begun


def pip_settings() -> dict[str, str]:
    """Return pip's settings of this machine that a build needs, as environment variables."""
    listed = run(sys.executable, "-m", "pip", "config", "list")
    values = dict(line.split("=", 1) for line in listed.splitlines() if "=" in line)
    settings = {}
    for name in PIP_SETTINGS:
        for section in (":env:", "install", "global"):
            if value := values.get(f"{section}.{name}"):
                settings[f"PIP_{name.replace('-', '_').upper()}"] = value.strip("'\"")
                break
    return settings


def local_paths(settings: Mapping[str, str]) -> list[str]:
    """Return the folders of this machine that pip's settings name as paths or file URLs."""
    paths = []
    for word in " ".join(settings.values()).split():
        path = Path(url2pathname(urlsplit(word).path) if word.startswith("file:") else word)
        if path.name == "simple":
            path = path.parent  # An index on disk links to files next to it.
        if path.is_absolute() and path.is_dir():
            paths.append(str(path))
    return list(dict.fromkeys(paths))


def build_arguments() -> list[str]:
    """Return the arguments by which a build sees the packages that this machine's pip sees."""
    settings = pip_settings()
    arguments = []
    for path in local_paths(settings):
        arguments += ["--volume", f"{path}:{path}:ro"]
    if certificate := settings.pop("PIP_CERT", ""):
        # Not in its own place: the package ca-certificates writes there.
        arguments += ["--volume", f"{certificate}:/mnt/ca.crt:ro"]
        settings["PIP_CERT"] = "/mnt/ca.crt"
    for name, value in settings.items():
        arguments += ["--build-arg", f"{name}={value}"]
    return arguments


@dataclass
class Store:
    """Where buildah keeps images: a folder of our own."""

    folder: Path

    @property
    def command(self) -> list[str]:
        """Buildah with this store. vfs works everywhere, but copies everything for each layer."""
        folders = ["--root", str(self.folder / "images"), "--runroot", str(self.folder / "run")]
        driver = "overlay" if self.overlays else "vfs"
        return ["buildah", *folders, "--storage-driver", driver]

    @cached_property
    def overlays(self) -> bool:
        """Whether folders can be laid over each other here."""
        folders = [self.folder / "probe" / name for name in ("lower", "upper", "work", "merged")]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        lower, upper, scratch, merged = map(str, folders)
        options = f"lowerdir={lower},upperdir={upper},workdir={scratch}"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, merged]
        works = subprocess.run(mount, capture_output=True).returncode == 0
        if works:
            run("umount", merged)
        shutil.rmtree(self.folder / "probe")
        return works

    def buildah(self, *arguments: str | Path) -> str:
        return run(*self.command, *arguments)

    def has(self, image: str) -> bool:
        inspect = [*self.command, "inspect", "--type", "image", image]
        return subprocess.run(inspect, capture_output=True).returncode == 0

    def base(self, wanted: str) -> str:
        """Return the base: the one that is wanted, Debian's of the registry, or one of our own."""
        if wanted:
            return wanted
        if self.has(OWN_BASE):
            return OWN_BASE
        pull = [*self.command, "pull", "--quiet", REGISTRY_BASE]
        with contextlib.suppress(subprocess.TimeoutExpired):
            if subprocess.run(pull, capture_output=True, timeout=120).returncode == 0:
                return REGISTRY_BASE
        say("no registry can be reached: mmdebstrap makes Debian 12")
        if shutil.which("mmdebstrap") is None:
            raise SystemExit("image-test: mmdebstrap is missing: apt-get install mmdebstrap")
        archive = self.folder / "base.tar"
        # As in Debian's own slim image.
        left_out = ("doc", "man", "info", "locale")
        lean = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in left_out]
        run("mmdebstrap", "--quiet", "--variant=minbase", *lean, "bookworm", archive)
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, archive, "/")
        self.buildah("commit", "--quiet", container, OWN_BASE)
        self.buildah("rm", container)
        archive.unlink()
        return OWN_BASE

    def build(self, base: str) -> None:
        """Build the image; by vfs all its steps are one layer, as each would be a copy."""
        options = ["--isolation", "chroot", "--format", "docker"]
        if self.overlays:
            options.append("--layers")
        arguments = ["--file", str(DOCKERFILE), "--build-arg", f"BASE={base}", *build_arguments()]
        self.buildah("build", *options, *arguments, "--tag", IMAGE, ROOT)

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        """Yield the folder with the image's files."""
        container = self.buildah("from", "--pull-never", IMAGE)
        try:
            yield Path(self.buildah("mount", container))
        finally:
            self.buildah("umount", container)
            self.buildah("rm", container)

    def release(self) -> None:
        """Remove containers that a failure has left, and end all mounts, which outlive buildah."""
        subprocess.run([*self.command, "rm", "--all"], capture_output=True)
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        for point in sorted((line.split()[1] for line in mounts), reverse=True):
            if Path(point).is_relative_to(self.folder):
                run("umount", point)

    def inspect(self) -> Json:
        """Return what the image says of itself: `config` (user, command, …) and `history`."""
        shown: Json = json.loads(self.buildah("inspect", "--type", "image", IMAGE))
        description: Json = shown["Docker"]
        return description

    def layers(self) -> list[float]:
        """Return the size of each layer as it is fetched (gzip), in MB, the base first."""
        pushed = self.folder / "pushed"
        self.buildah("push", "--quiet", IMAGE, f"dir:{pushed}")
        manifest = json.loads((pushed / "manifest.json").read_text())
        sizes = [layer["size"] / 1e6 for layer in manifest["layers"]]
        shutil.rmtree(pushed)
        return sizes


@dataclass
class Container:
    """A running container: the image's own command as process 1 of a namespace of its own."""

    root: Path
    config: Json
    cache: Path
    log: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None
    first: int = 0
    """Process 1 of the container, by its number outside."""

    def start(self) -> None:
        self.first = 0
        environment = self._variables()
        inside = [
            *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
            *("--bounding-set=-all", "--"),
            *self.config["Entrypoint"],
            *self.config["Cmd"],
        ]
        reader, writer = os.pipe()
        command = [
            *("bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
            *("--as-pid-1", "--die-with-parent", "--clearenv"),
            *(word for pair in environment.items() for word in ("--setenv", *pair)),
            *("--ro-bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev"),
            *("--perms", "1777", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm"),
            *("--perms", "1777", "--tmpfs", "/tmp", "--bind", str(self.cache), "/var/cache/conch"),
            *("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"),
            *("--cap-add", "CAP_SETPCAP", "--info-fd", str(writer), "--", *inside),
        ]
        with self.log.open("ab") as log, open(reader) as answer:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[writer]
            )
            os.close(writer)
            self.first = json.load(answer)["child-pid"]

    def inside(self, *command: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        """Run a program of the image in the container, as its user."""
        assert self.first
        namespaces = ["--target", str(self.first), "--mount", "--pid", "--net", "--ipc", "--uts"]
        user = ["--root", "--wd=/", "--setuid", str(USER), "--setgid", str(USER)]
        variables = [f"{name}={value}" for name, value in self._variables().items()]
        words = ["nsenter", *namespaces, *user, "--", "env", "-i", *variables, *command]
        return subprocess.run(words, capture_output=True, text=True, timeout=seconds)

    def _variables(self) -> dict[str, str]:
        return dict(item.split("=", 1) for item in self.config["Env"]) | dict(self.variables)

    def healthy(self) -> bool:
        """Run the image's health check; it fails once the container has ended."""
        assert self.process is not None
        assert self.process.poll() is None, f"it has ended with {self.process.returncode}"
        form, *command = self.config["Healthcheck"]["Test"]
        assert form == "CMD"
        return self.inside(*command).returncode == 0

    def curl(self, *arguments: str) -> list[str]:
        """Return a command: curl of this machine in the container's network."""
        words = ["nsenter", "--target", str(self.first), "--net", "--", "curl", "-sS"]
        return [*words, "--max-time", f"{ANSWER_S:g}", *arguments]

    def processes(self) -> list[tuple[int, str, str, int]]:
        """Return number outside, name, state and user of each process of the container."""
        space = os.readlink(f"/proc/{self.first}/ns/pid")
        running = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                number = int(entry.name)
                if os.readlink(entry / "ns" / "pid") != space:
                    continue
                lines = (entry / "status").read_text().splitlines()
                status = dict(line.split(":\t", 1) for line in lines)
                user = int(status["Uid"].split()[0])
                running.append((number, status["Name"], status["State"][0], user))
        return running

    def zombies(self) -> list[int]:
        """Return the ended processes that no parent has waited for."""
        # A zombie has no namespace to read: it is known by its parent.
        parents = {number for number, *_ in self.processes()}
        dead = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                number = int(entry.name)
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] == "Z" and int(fields[1]) in parents:
                    dead.append(number)
        return dead

    def processor_s(self) -> float:
        """Return the seconds of processors that it has used, which other work does not lengthen."""
        ticks = 0
        for number, *_ in self.processes():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
                # User and system, its own and of the children that it has waited for.
                ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            # Process 1, and by it all others: --die-with-parent is void once the user has changed.
            if self.first:
                os.kill(self.first, signal.SIGKILL)
            else:
                self.process.kill()
            self.process.wait()


def transcription(container: Container, file: Path, *more: str) -> list[str]:
    """Return the command that transcribes a file over the gateway; its status is the last line."""
    form = ["--form", f"file=@{file}", "--form", "response_format=text"]
    address = f"{URL}/v1/audio/transcriptions"
    return container.curl(*form, "--write-out", "%{http_code}", *more, address)


def with_key() -> list[str]:
    return ["--header", f"Authorization: Bearer {KEY}"]


def check_files(root: Path, description: Json) -> None:
    """Check what is in the image, and what it says of itself."""
    assert description["config"]["User"] == f"{USER}:{USER}"
    left = [name for name in ABSENT if (root / name).exists()]
    assert not left, f"the image has {', '.join(left)}"
    assert not list((root / "var/lib/apt/lists").glob("*_Packages*"))
    assert not list(root.glob("opt/conch/lib/python*/site-packages/pip"))
    settings = [value for name, value in pip_settings().items() if name != "PIP_CERT"]
    text = json.dumps(description)
    assert not [value for value in settings if value in text], "pip's settings are in the image"


def check_refusal(container: Container) -> None:
    """Check that a container without keys ends at once and says why."""
    container.start()
    assert container.process is not None
    code = container.process.wait(60)
    log = container.log.read_text(errors="replace")
    assert code == 1 and "keys" in log, log
    say(f"without keys: {log.strip().splitlines()[-1][:100]}")


def check_answers(container: Container) -> None:
    """Check a transcription, and that there is none without a key."""
    done = run(*transcription(container, SAMPLE, *with_key()))
    assert done.endswith("200") and IN_SAMPLE in done.lower(), done
    say(f"transcribes: {done[:-3].strip()[:60]}…")
    refused = run(*transcription(container, SAMPLE))
    assert refused.endswith("401"), refused


def check_processes(container: Container) -> None:
    """Check the tree of processes, and what comes of one that is killed."""
    running = container.processes()
    names = [name for _, name, *_ in running]
    assert {user for *_, user in running} == {USER}, "a process has another user"
    first = next(name for number, name, *_ in running if number == container.first)
    assert first == "tini", f"process 1 is {first}"
    status = Path(f"/proc/{container.first}/status").read_text()
    assert "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status
    assert container.zombies() == []
    # What a shell leaves behind is adopted by process 1, which must wait for it.
    container.inside("sh", "-c", "sleep 0.2 & sleep 0.2 & exit 0")
    wait_for(lambda: "sleep" not in [name for _, name, *_ in container.processes()], 10, "orphans")
    assert container.zombies() == []

    victim = next(
        number
        for number, name, *_ in running
        if name.startswith("triton_python_b")
        and b"/vad" in Path(f"/proc/{number}/cmdline").read_bytes()
    )
    os.kill(victim, signal.SIGKILL)
    done = run(*transcription(container, SAMPLE, *with_key()))
    assert done.endswith("200") and IN_SAMPLE in done.lower(), done

    def healed() -> bool:
        now = [name for _, name, *_ in container.processes()]
        return len(now) >= len(names) and not container.zombies()

    wait_for(healed, HEAL_S, "a component that was killed")
    say(f"{len(names)} processes of user {USER} below tini; a killed component is replaced")


def check_stop(container: Container) -> float:
    """Stop it while a recording is recognised, and return how many seconds that took."""
    long = container.cache / "long.wav"
    made = container.inside(
        *("python", "-c", LONGER, "/var/cache/conch/long.wav", str(REPEATS)),
    )
    assert made.returncode == 0, made.stderr
    command = transcription(container, long, *with_key())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:

        def taken() -> bool:
            metrics = run(*container.curl(*with_key(), f"{URL}/metrics"))
            return "conch_gateway_files 1.0" in metrics

        wait_for(taken, 30, "the recording")
        begun = time.monotonic()
        os.kill(container.first, signal.SIGTERM)
        assert container.process is not None
        code = container.process.wait(STOP_S)
        took = time.monotonic() - begun
        text, _ = client.communicate(timeout=10)
    assert text.endswith("200") and text.lower().count(IN_SAMPLE) >= REPEATS, text[-200:]
    long.unlink()
    assert code == 0, f"it ended with {code}"
    say(f"SIGTERM: the recording in flight was answered, and all ended in {took:.1f} s with 0")
    return took


def started(container: Container) -> str:
    """Start a container, wait for its health check, and return how long it took."""
    begun = time.monotonic()
    container.start()
    wait_for(container.healthy, START_S, "the start")
    took = time.monotonic() - begun
    return f"{took:.1f} s after the start, by {container.processor_s():.1f} s of a processor"


def size_of(folder: Path) -> float:
    """Return the size of a folder, in MB."""
    return int(run("du", "-sxb", folder).split()[0]) / 1e6


def check(store: Store, work: Path) -> None:
    description = store.inspect()
    config = description["config"]
    with store.mounted() as root:
        check_files(root, description)
        cache = work / "cache"
        cache.mkdir()
        os.chown(cache, USER, USER)
        variables = {"CONCH_API_KEYS": f"test:{KEY}"}
        log = work / "container.log"
        closed = Container(root, config, cache, log)
        container = Container(root, config, cache, log, variables)
        try:
            check_refusal(closed)
            say(f"with an empty cache healthy {started(container)}")
            check_answers(container)
            check_processes(container)
            check_stop(container)
            say(f"with what is kept healthy {started(container)}")
            check_answers(container)
            os.kill(container.first, signal.SIGTERM)
            assert container.process is not None and container.process.wait(STOP_S) == 0
        except BaseException:
            print(log.read_text(errors="replace")[-6000:], file=sys.stderr)
            raise
        finally:
            closed.end()
            container.end()
        layers = store.layers()
        fetched = " + ".join(f"{size:.0f}" for size in layers)
        say(f"size {size_of(root):.0f} MB on disk; {sum(layers):.0f} MB to fetch ({fetched})")
        say(f"cache after the first start {size_of(cache):.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the CPU image, run it, report.")
    parser.add_argument("--base", default="", help="base image (default: Debian 12, slim)")
    parser.add_argument(
        "--store", type=Path, help="folder that keeps the images for the next run (default: none)"
    )
    args = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("image-test: only root can mount an image and become its user")
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing:
        raise SystemExit(f"image-test: missing: apt-get install {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="conch-image-") as temporary:
        work = Path(temporary)
        store = Store(args.store.resolve() if args.store else work)
        store.folder.mkdir(parents=True, exist_ok=True)
        work.chmod(0o755)
        try:
            begun = time.monotonic()
            base = store.base(args.base)
            store.build(base)
            say(f"built on {base} in {time.monotonic() - begun:.0f} s")
            check(store, work)
        finally:
            store.release()


if __name__ == "__main__":
    main()
