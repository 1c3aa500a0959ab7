"""One pod as the kubelet runs it, from its manifest alone: volumes, init containers, its process, probes, its end.

Left out: resources, seccomp, devices, node selection, NetworkPolicies. All pods share this machine's network, so a pod
has a loopback address of its own, in place of ``0.0.0.0`` in its manifest.
"""

import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.pods.container import Container, Mount, Running
from tests.support.pods.images import Image
from tests.support.pods.probes import Probe
from tests.support.pods.volumes import Storage, Volumes

Json = dict[str, Any]
EVERYWHERE = "0.0.0.0"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
LOOK_S = 0.1
INIT_WITHIN_S = 60
CRASHES = 3
"""So many ends of its process, and a pod stays as it is: tests want to see why."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What all pods have in common: storage, images by their repository's last part, names, and what is said."""

    storage: Storage
    images: Mapping[str, Image]
    hosts: Path
    said: Callable[[str], None]
    given: Mapping[str, str] = field(default_factory=dict)
    """Variables that the cluster adds to each container: credentials of its service account."""
    files: Sequence[Mount] = ()
    """Files that stand for parts of the base: authorities of certificates."""
    token: Path | None = None
    """The folder of a service account's token, for pods that mount it."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Variables that are other here, for want of a device."""


class Pod:
    """A pod that runs until it is told to end."""

    def __init__(self, spec: Json, address: str, machine: Machine, folder: Path) -> None:
        """Take a pod object; ``folder`` gets its logs and what ends with it."""
        self.metadata, self.spec, self.address = spec["metadata"], spec["spec"], address
        self.name, self.labels = self.metadata["name"], self.metadata.get("labels", {})
        self.folder, self.is_ready, self.is_over, self.restarts = _free(folder / self.name), False, False, 0
        self.folder.mkdir(parents=True)
        self._machine = machine
        security = self.spec["securityContext"]
        assert security["runAsNonRoot"]
        self._user = int(security["runAsUser"])
        group = int(security["fsGroup"])
        self._volumes = Volumes(folder=self.folder / "volumes", group=group, storage=machine.storage)
        self._main: Running | None = None
        self._ends = threading.Event()
        self._grace_s: float | None = None
        self._is_quiet = False
        self._thread = threading.Thread(target=self._live, name=self.name)

    # -- from outside ----------------------------------------------------------------------------------

    def start(self) -> "Pod":
        self._thread.start()
        return self

    def end(self, grace_s: float | None = None) -> None:
        """Tell it to end within its grace, or a shorter one; it leaves its services at once."""
        self._grace_s, self.is_ready = grace_s, False
        self._ends.set()

    def lose(self, *, quietly: bool = False) -> None:
        """Lose it with its machine: no signal, no grace."""
        self._is_quiet = quietly
        self._ends.set()
        if self._main is not None:
            self._main.kill()

    def wait(self, within_s: float = 60) -> None:
        self._thread.join(within_s)
        assert not self._thread.is_alive(), f"{self.name} does not end\n{self.log()}"

    def log(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def port(self, name: str) -> int:
        """Return the number of a port of its first container."""
        ports = self.spec["containers"][0]["ports"]
        return next(int(port["containerPort"]) for port in ports if port["name"] == name)

    # -- its life --------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            mounts = {volume["name"]: self._volumes.make(volume) for volume in self.spec.get("volumes", [])}
            for container in self.spec.get("initContainers", []):
                self._prepare(container, mounts)
            while self._again():
                self._run(self.spec["containers"][0], mounts)
        except Exception as error:  # noqa: BLE001  what a pod ends with is for the test to read
            self._say(f"FAILED: {error!r}")
        finally:
            self.is_ready, self.is_over = False, True
            if self._main is not None:
                self._main.kill()

    def _again(self) -> bool:
        if self._main is None:
            return True
        return not self._ends.is_set() and self.spec.get("restartPolicy") != "Never" and self.restarts < CRASHES

    def _prepare(self, container: Json, mounts: Mapping[str, Path]) -> None:
        code = self._container(container, mounts).run(self.folder / f"0-{container['name']}.log", INIT_WITHIN_S)
        if code:
            raise RuntimeError(f"init container {container['name']} ended with {code}: {self.log()[-400:]}")

    def _run(self, container: Json, mounts: Mapping[str, Path]) -> None:
        """Run the process to its end."""
        made = self._container(container, mounts)
        self._main = made.start(self.folder / f"1-{container['name']}.log")
        self._say(f"runs `{' '.join(made.command)}` at {self.address}")
        self._watch(container, self._main)
        if self._ends.is_set() and self._main.code is None:
            self._stop(container, self._main)
        self.restarts += not self._ends.is_set()
        self.is_ready = False
        self._say(f"ended with {self._main.code}")

    def _watch(self, container: Json, main: Running) -> None:
        """Probe until the process ends, is told to, or does not live by its probes."""
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        probes = {
            kind: Probe(told=container[f"{kind}Probe"], address=self.address, ports=ports)
            for kind in ("startup", "liveness", "readiness")
            if f"{kind}Probe" in container
        }
        has_started = "startup" not in probes
        while main.code is None and not self._ends.is_set():
            if not has_started:
                found = probes["startup"].look()
                has_started = found is True
                if found is False:
                    return self._kill(main, f"startup probe failed: {probes['startup'].said}")
            elif "liveness" in probes and probes["liveness"].look() is False:
                return self._kill(main, f"liveness probe failed: {probes['liveness'].said}")
            elif "readiness" in probes:
                self._judge(probes["readiness"])
            self._ends.wait(LOOK_S)
        return None

    def _judge(self, probe: Probe) -> None:
        found = probe.look()
        if found is not None and found != self.is_ready and not self._ends.is_set():
            self.is_ready = found
            self._say("is ready" if found else f"is not ready: {probe.said}")

    def _kill(self, main: Running, why: str) -> None:
        self._say(why)
        main.kill()

    def _stop(self, container: Json, main: Running) -> None:
        """End it as the kubelet does: preStop and SIGTERM share the grace, then SIGKILL."""
        given = self.spec.get("terminationGracePeriodSeconds", 30)
        until = time.monotonic() + (given if self._grace_s is None else min(given, self._grace_s))
        pause_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        self._until(main, min(time.monotonic() + pause_s, until))
        if main.code is None:
            self._say(f"is sent SIGTERM with {max(0.0, until - time.monotonic()):.0f} s of its grace left")
            main.send(signal.SIGTERM)
        self._until(main, until)
        if main.code is None:
            self._kill(main, "is killed at the end of its grace")

    @staticmethod
    def _until(main: Running, moment: float) -> None:
        while main.code is None and time.monotonic() < moment:
            time.sleep(LOOK_S / 2)

    # -- its containers --------------------------------------------------------------------------------

    def _container(self, told: Json, mounts: Mapping[str, Path]) -> Container:
        image = self._machine.images[told["image"].partition("@")[0].rpartition("/")[2]]
        security = told["securityContext"]
        assert int(security["runAsUser"]) == self._user == image.uid
        assert security["capabilities"] == {"drop": ["ALL"]}
        variables = self._variables(told.get("env", []))
        inside = [
            Mount(source=mounts[mount["name"]], path=mount["mountPath"], read_only=mount.get("readOnly", False))
            for mount in told.get("volumeMounts", [])
        ]
        hosts = Mount(source=self._machine.hosts, path="/etc/hosts", read_only=True)
        return Container(
            image=image,
            command=[_expand(word, variables) for word in told["command"]],
            environment={**self._machine.given, **variables},
            mounts=[*self._machine.files, *self._token(), hosts, *inside],
            read_only=security["readOnlyRootFilesystem"],
        )

    def _token(self) -> list[Mount]:
        """Return the mount of its account's token, if its manifest has one."""
        if self.spec["automountServiceAccountToken"] is False or self._machine.token is None:
            return []
        return [Mount(source=self._machine.token, path=TOKEN, read_only=True)]

    def _variables(self, told: Sequence[Json]) -> dict[str, str]:
        found: dict[str, str] = {}
        for one in told:
            value = _expand(self._value(one), found)
            found[one["name"]] = self.address if value == EVERYWHERE else value
        return {name: self._machine.instead.get(name, value) for name, value in found.items()}

    def _value(self, told: Json) -> str:
        if "value" in told:
            return str(told["value"])
        source = told["valueFrom"]
        if "secretKeyRef" in source:
            return self._machine.storage.secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
        path = source["fieldRef"]["fieldPath"]
        fields = {"status.podIP": self.address, "metadata.name": self.name}
        label = re.fullmatch(r"metadata\.labels\['(.+)'\]", path)
        return str(self.labels.get(label[1], "")) if label else fields[path]

    def _say(self, what: str) -> None:
        if not self._is_quiet:
            self._machine.said(f"{self.name}: {what}")


def _free(folder: Path) -> Path:
    """Return the folder, or another one if a pod of this name has used it."""
    return folder if not folder.exists() else _free(folder.with_name(f"{folder.name}.again"))


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """Put in values for ``$(NAME)``, as Kubernetes does in commands and variables."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), text)
