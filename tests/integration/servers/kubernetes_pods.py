"""Runs the pods of a Kubernetes namespace as processes of this machine: each with an address on loopback, and with no variable but its own.

What a pod would see below the path of a volume, a process sees in a folder; so these paths are replaced in all that it is given. A service is
the address of the pod behind it.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servers.kubernetes_api import KubernetesApi, Object
from tideline_stack.processes import Child

_POLL_S = 0.1
_KILLED = 128 + signal.SIGKILL


class Pods:
    """The pods of a namespace.

    Args:
        api: The server that knows of them.
        folder: Where their volumes and logs are.
        image: The environment variables of the image.
    """

    def __init__(self, api: KubernetesApi, folder: Path, image: Mapping[str, str]) -> None:
        self._api = api
        self._objects = api.objects
        self._folder = folder
        self._image = image
        self._children: dict[str, Child] = {}
        self._addresses: dict[str, str] = {}
        self.specs: dict[str, Object] = {}
        """Each pod that there was, by its name."""

    @contextmanager
    def running(self) -> Iterator["Pods"]:
        """Run pods until the end of the context; then end them all."""
        thread = threading.Thread(target=self._follow)
        thread.start()
        try:
            yield self
        finally:
            self._api.has_ended.set()
            thread.join()
            for child in self._children.values():
                child.stop(patience=1)

    def log(self, name: str) -> str:
        """Return what a pod has printed."""
        file = self._folder / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def kill(self, name: str) -> None:
        """Kill a pod as a node that loses its power."""
        self.signal(name, signal.SIGKILL)

    def signal(self, name: str, sent: signal.Signals) -> None:
        """Send a signal to all processes of a pod."""
        os.killpg(self._children[name].pid, sent)

    def _follow(self) -> None:
        told = 0
        while not self._api.has_ended.is_set():
            news, told = self._objects.news(told, seconds=_POLL_S)
            for kind, event, pod in news:
                if kind == "pods" and event == "ADDED":
                    self._admit(pod)
                if (
                    kind == "pods"
                    and event == "DELETED"
                    and (child := self._children.pop(pod["metadata"]["name"], None))
                ):
                    child.stop(patience=1)
            for pod in self._objects.all_of("pods"):
                self._start_or_report(pod)

    def _admit(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        self.specs[name] = pod
        self._addresses[name] = f"127.0.1.{len(self._addresses) + 1}"
        self._objects.change("pods", name, {"status": {"phase": "Pending", "podIP": self._addresses[name]}})

    def _start_or_report(self, pod: Object) -> None:
        name, phase = pod["metadata"]["name"], pod.get("status", {}).get("phase")
        if phase == "Pending" and name in self._addresses and self._has_its_volumes(pod):
            self._children[name] = self._start(pod)
            self._say(pod, "Running", {"running": {"startedAt": "2030-01-01T00:00:00Z"}})
        if phase == "Running" and (code := self._children[name].exit_code()) is not None:
            ended = {"exitCode": code if code >= 0 else _KILLED, "reason": "Error" if code else "Completed"}
            self._say(pod, "Failed" if code else "Succeeded", {"terminated": ended})

    def _say(self, pod: Object, phase: str, state: Mapping[str, Any]) -> None:
        name, is_ready = pod["metadata"]["name"], phase == "Running"
        [container] = pod["spec"]["containers"]
        about = {
            "name": container["name"],
            "image": container["image"],
            "imageID": container["image"],
            "ready": is_ready,
            "restartCount": 0,
            "state": state,
        }
        status = {
            "phase": phase,
            "podIP": self._addresses[name],
            "conditions": [{"type": "Ready", "status": str(is_ready)}],
            "containerStatuses": [about],
        }
        self._objects.change("pods", name, {"status": status})

    def _has_its_volumes(self, pod: Object) -> bool:
        names = [volume["configMap"]["name"] for volume in pod["spec"].get("volumes", []) if "configMap" in volume]
        return all(self._objects.get("configmaps", name) for name in names)

    def _start(self, pod: Object) -> Child:
        name = pod["metadata"]["name"]
        [container] = pod["spec"]["containers"]
        mounted = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
        own = self._folder / name
        seen = {path: str(own / volume) for volume, path in mounted.items()}
        for service in self._objects.all_of("services"):
            owner = service["metadata"]["ownerReferences"][0]["name"]
            seen[f"{service['metadata']['name']}.{self._objects.space}.svc"] = self._addresses[owner]

        def placed(text: str) -> str:
            for there, here in seen.items():
                text = text.replace(there, here)
            return text

        for volume in pod["spec"].get("volumes", []):
            (own / volume["name"]).mkdir(parents=True)
            for item in volume.get("configMap", {}).get("items", []):
                data = self._objects.data("configmaps", volume["configMap"]["name"])
                (own / volume["name"] / item["path"]).write_text(placed(data[item["key"]]))
        words = [placed(word) for word in (*container["command"], *container["args"])]
        variables = {variable: placed(value) for variable, value in self._variables(pod, container).items()}
        return Child(name, words, log=self._folder / f"{name}.log", cwd=own, environment={**self._image, **variables})

    def _variables(self, pod: Object, container: Object) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in container.get("envFrom", []):
            found |= self._objects.data("configmaps", source["configMapRef"]["name"])
        for one in container.get("env", []):
            found[one["name"]] = one["value"] if "value" in one else self._referred(pod, one.get("valueFrom", {}))
        return found

    def _referred(self, pod: Object, source: Mapping[str, Any]) -> str:
        """Return the value of a variable that refers to a field of the pod or to a Secret."""
        if secret := source.get("secretKeyRef"):
            return self._objects.data("secrets", secret["name"], "stringData")[secret["key"]]
        name = pod["metadata"]["name"]
        fields = {"status.podIP": self._addresses[name], "metadata.name": name}
        return fields[source["fieldRef"]["fieldPath"]] if source else ""
