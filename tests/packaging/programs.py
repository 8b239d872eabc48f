"""The programs that the files in `deploy/` start: their arguments, variables, files and ports, as plain values."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BASE = DEPLOY / "kubernetes" / "base"
TRIAL = DEPLOY / "kubernetes" / "overlays" / "trial"


@dataclass(frozen=True)
class Program:
    """One start of `tsdb`."""

    name: str
    arguments: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    """Files of the repository by the paths at which the program finds them."""

    @property
    def component(self) -> str:
        return self.arguments[0]


def programs() -> list[Program]:
    """All of them."""
    return [dockerfile_program(), systemd_program(), *compose_programs(), *kubernetes_programs()]


def dockerfile_lines() -> dict[str, list[str]]:
    """The instructions of the Dockerfile's last stage, by keyword."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.rpartition("\nFROM ")[2].splitlines()[1:]:
        keyword, _, rest = line.partition(" ")
        if keyword.isupper():
            found.setdefault(keyword, []).append(rest.strip())
    return found


def dockerfile_program() -> Program:
    lines = dockerfile_lines()
    assert json.loads(lines["ENTRYPOINT"][0]) == ["tsdb"]
    return Program("docker", tuple(json.loads(lines["CMD"][0])))


def systemd_unit() -> ConfigParser:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "systemd" / "tsdb.service")
    return unit


def systemd_program() -> Program:
    executable, *arguments = shlex.split(systemd_unit()["Service"]["ExecStart"])
    assert executable.endswith("/bin/tsdb")
    files = {"/etc/tsdb/tsdb.toml": DEPLOY / "systemd" / "tsdb.toml"}
    return Program("systemd", tuple(arguments), files=files)


def compose() -> dict[str, Any]:
    text = (DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8")
    # A variable of the operator's shell with a default is that default.
    loaded: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    return loaded


def compose_programs() -> Iterator[Program]:
    for name, service in compose()["services"].items():
        if service["image"] == "tsdb":
            mounts = [each.split(":") for each in service.get("volumes", []) if each.startswith("./")]
            yield Program(
                f"compose {name}",
                tuple(service["command"]),
                variables=service.get("environment", {}),
                files={mount[1]: DEPLOY / "compose" / mount[0] for mount in mounts},
            )


def objects(directory: Path) -> list[dict[str, Any]]:
    """The objects of a folder's own manifests."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
    names = [name for name in kustomization["resources"] if name.endswith(".yaml")]
    return [each for name in names for each in yaml.safe_load_all((directory / name).read_text(encoding="utf-8"))]


def workloads(directory: Path) -> Iterator[dict[str, Any]]:
    yield from (each for each in objects(directory) if each["kind"] in ("Deployment", "StatefulSet"))


def config_files() -> dict[str, dict[str, Path]]:
    """The files of each generated ConfigMap, by their names in it."""
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))
    return {
        each["name"]: {Path(name).name: BASE / name for name in each["files"]}
        for each in kustomization["configMapGenerator"]
    }


def kubernetes_programs() -> Iterator[Program]:
    for workload in workloads(BASE):
        pod = workload["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        values = dict(_variables(workload["metadata"]["name"], container))
        arguments = [_filled_in(each, values) for each in container["args"]]
        yield Program(
            f"kubernetes {workload['metadata']['name']}",
            tuple(arguments),
            variables={name: value for name, value in values.items() if name.startswith("TSDB_")},
            files=dict(_mounted(pod, container)),
        )


def _variables(name: str, container: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The variables of a container as the second pod would have them."""
    fields = {"metadata.name": f"{name}-1", "metadata.labels['apps.kubernetes.io/pod-index']": "1"}
    for each in container.get("env", []):
        source = each.get("valueFrom", {})
        if "fieldRef" in source:
            yield each["name"], fields[source["fieldRef"]["fieldPath"]]
        else:
            yield each["name"], each.get("value", "a secret")


def _filled_in(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], text)


def _mounted(pod: dict[str, Any], container: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    maps = {each["name"]: each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each}
    for mount in container["volumeMounts"]:
        if mount["name"] in maps:
            for name, path in config_files()[maps[mount["name"]]].items():
                yield f"{mount['mountPath']}/{name}", path
