"""The files in `deploy/` say what the product understands: options, keys, ports, probes, names of each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.packaging.programs import (
    BASE,
    DEPLOY,
    TRIAL,
    Program,
    compose,
    config_files,
    dockerfile_lines,
    objects,
    programs,
    systemd_unit,
    workloads,
)
from tsdb.cli._commands import _tree

PROGRAMS = programs()
PRODUCT_IMAGE = "tsdb"


def effective(program: Program) -> dict[str, Any]:
    """The configuration that the real command line makes of a program's arguments, files and variables."""
    arguments = [str(program.files.get(each, each)) for each in program.arguments]
    assert arguments[1] == "start", arguments
    arguments[1] = "config"
    result = CliRunner().invoke(_tree(), arguments, env=program.variables)
    assert result.exit_code == 0, f"{program.name}: {result.output}"
    return tomllib.loads(result.output)


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


def ports(config: dict[str, Any]) -> dict[str, int]:
    """The ports that a component listens on, by the names that the manifests use."""
    found = {"http": port(config["http"]["addr"])}
    for name in ("mysql", "postgres", "opentsdb"):
        if config.get(name, {}).get("enable"):
            found[name] = port(config[name]["addr"])
    for address in (config.get("rpc_addr"), config.get("bind_addr"), config.get("grpc", {}).get("addr")):
        if address is not None:
            found["grpc"] = port(address)
    return found


def test_all_programs_are_found() -> None:
    components = [program.component for program in PROGRAMS]
    counts = {component: components.count(component) for component in set(components)}
    assert counts == {"standalone": 2, "metasrv": 3, "datanode": 4, "frontend": 3}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_command_line_takes_the_options_and_files(program: Program) -> None:
    effective(program)
    for file in program.files.values():
        assert str(file) in " ".join(str(program.files.get(each, each)) for each in program.arguments)


def test_a_wrong_option_would_be_found() -> None:
    with pytest.raises(AssertionError, match="No such option"):
        effective(Program("wrong", ("metasrv", "start", "--bind-adr", "0.0.0.0:3002")))
    with pytest.raises(AssertionError, match="unknown key"):
        effective(Program("wrong", ("metasrv", "start"), variables={"TSDB_METASRV__BIND_ADR": "0.0.0.0:3002"}))


def test_the_image_exposes_and_probes_the_ports_of_its_server() -> None:
    lines = dockerfile_lines()
    (program,) = (each for each in PROGRAMS if each.name == "docker")
    config = effective(program)
    assert {int(each) for each in lines["EXPOSE"][0].split()} == set(ports(config).values())
    probed = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)'", lines["HEALTHCHECK"][0])
    assert probed is not None
    assert int(probed[1]) == ports(config)["http"]
    assert probed[2] in config["http"]["public_endpoints"]
    assert lines["USER"] == ["10001:10001"]
    assert config["storage"]["data_home"] == lines["VOLUME"][0] == lines["WORKDIR"][0]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_container_has_its_http_server_where_the_image_probes_it(program: Program) -> None:
    if program.name == "systemd":
        pytest.skip("not a container")
    assert effective(program)["http"]["addr"] == "0.0.0.0:4000"


def test_the_unit_waits_for_notifications_and_keeps_its_data_in_its_own_directories() -> None:
    service = systemd_unit()["Service"]
    assert service["Type"] == "notify"
    (program,) = (each for each in PROGRAMS if each.name == "systemd")
    config = effective(program)
    assert config["storage"]["data_home"] == f"/var/lib/{service['StateDirectory']}"
    assert config["logging"]["dir"] == f"/var/log/{service['LogsDirectory']}"
    assert service["ProtectSystem"] == "strict"


def test_the_compose_file_is_one_cluster() -> None:
    services = compose()["services"]
    ours = {name: service for name, service in services.items() if service["image"] == PRODUCT_IMAGE}
    configs = {
        each.name.removeprefix("compose "): effective(each) for each in PROGRAMS if each.name.startswith("compose")
    }
    assert set(ours) == set(configs)
    metasrv = {config["server_addr"] for name, config in configs.items() if name.startswith("metasrv")}
    assert metasrv == {"metasrv-1:3002", "metasrv-2:3002"}
    for name, config in configs.items():
        if "meta_client" in config:
            assert set(config["meta_client"]["metasrv_addrs"]) == metasrv
        if name.startswith("datanode"):
            assert config["rpc_hostname"] == name
            assert f"datanode-{config['node_id']}" == name
            assert config["storage"]["endpoint"] == "http://s3:9000"
        if name.startswith("metasrv"):
            assert config["store_addr"] == "etcd:2379"
        for mapping in services[name].get("ports", []):
            assert port(mapping) in ports(config).values()


def test_compose_services_wait_for_services_with_a_health_check() -> None:
    services = compose()["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, name
            assert services[other]["image"] == PRODUCT_IMAGE or "healthcheck" in services[other]
    used = {each.split(":")[0] for service in services.values() for each in service.get("volumes", [])}
    assert {each for each in used if not each.startswith(".")} == set(compose()["volumes"])


def test_kubernetes_ports_and_probes_are_those_of_the_product() -> None:
    configs = {each.name.removeprefix("kubernetes "): effective(each) for each in PROGRAMS if "kubernetes" in each.name}
    for workload in workloads(BASE):
        config = configs[workload["metadata"]["name"]]
        template = workload["spec"]["template"]
        (container,) = template["spec"]["containers"]
        assert {each["name"]: each["containerPort"] for each in container["ports"]} == ports(config)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == "http"
            assert container[probe]["httpGet"]["path"] in config["http"]["public_endpoints"]
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
        annotations = template["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == str(ports(config)["http"])
        assert annotations["prometheus.io/path"] in config["http"]["public_endpoints"]


def test_kubernetes_datanodes_are_numbered_and_named_by_their_pods() -> None:
    (config,) = (effective(each) for each in PROGRAMS if each.name == "kubernetes datanode")
    assert config["node_id"] == 1
    assert config["rpc_hostname"] == "datanode-1.datanode"
    (metasrv,) = (effective(each) for each in PROGRAMS if each.name == "kubernetes metasrv")
    assert metasrv["server_addr"] == "metasrv-1.metasrv:3002"
    assert metasrv["server_addr"] in config["meta_client"]["metasrv_addrs"]


@pytest.mark.parametrize("directory", [BASE, TRIAL], ids=lambda directory: directory.name)
def test_kubernetes_objects_find_each_other(directory: Path) -> None:
    found = objects(directory)
    pods = {each["metadata"]["name"]: each["spec"]["template"] for each in workloads(directory)}
    labels = [pod["metadata"]["labels"] for pod in pods.values()]
    services = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "Service"}
    for workload in workloads(directory):
        assert workload["spec"]["selector"]["matchLabels"] in labels
        assert workload["spec"].get("serviceName", "frontend") in services
        spec = workload["spec"]
        claims = {each["metadata"]["name"] for each in spec.get("volumeClaimTemplates", [])}
        volumes = {each["name"] for each in spec["template"]["spec"].get("volumes", [])}
        (container,) = spec["template"]["spec"]["containers"]
        assert {each["name"] for each in container["volumeMounts"]} == claims | volumes
        assert {"requests", "limits"} == set(container["resources"])
    for name, service in services.items():
        assert service["selector"] in labels
        (container,) = pods[name]["spec"]["containers"]
        offered = {each["name"]: each["containerPort"] for each in container["ports"]}
        assert {each["targetPort"]: each["port"] for each in service["ports"]} == offered
    for budget in (each for each in found if each["kind"] == "PodDisruptionBudget"):
        assert budget["spec"]["selector"]["matchLabels"] in labels


def test_every_manifest_and_configuration_file_is_used() -> None:
    for directory in (BASE, TRIAL):
        kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
        listed = {name for name in kustomization["resources"] if name.endswith(".yaml")}
        assert listed == {path.name for path in directory.glob("*.yaml")} - {"kustomization.yaml"}
    used = {path for files in config_files().values() for path in files.values()}
    assert used == set((BASE / "config").glob("*.toml"))
    assert {path for program in PROGRAMS for path in program.files.values()} == set(DEPLOY.rglob("*.toml"))


def test_the_addresses_in_the_kubernetes_files_are_those_of_services() -> None:
    names = {each["metadata"]["name"] for each in [*objects(BASE), *objects(TRIAL)] if each["kind"] == "Service"}
    for files in config_files().values():
        for path in files.values():
            for host in re.findall(r'"(?:http://)?([a-z][a-z0-9.-]*):\d+"', path.read_text(encoding="utf-8")):
                assert host.rpartition(".")[2] in names, f"{path.name} names {host}"
