"""Checks what is below deploy/. Prints one line for each file, and fails with what is wrong."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

DEPLOY = Path("deploy")
KUBERNETES = "1.30"
# What the files of one chart and of the manifests must have.
PASSWORD = {"mode": "postgres", "url": "postgres://baton@db/baton", "passwordSecret": "store", "passwordKey": "password"}
CASES = {
    "one server": {"tokenSecret": "token"},
    "three servers": {"tokenSecret": "token", "store": PASSWORD},
    "everything set": {
        "tokenSecret": "token", "store": PASSWORD, "replicas": 5, "environmentSecrets": ["keys"], "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}], "persistence": {"size": "5Gi", "storageClass": "fast"},
        "ingress": {"enabled": True, "className": "nginx", "host": "baton.example", "tlsSecret": "tls"},
    },
}
REFUSED = {
    "no token": {},
    "no address": {"tokenSecret": "token", "store": {**PASSWORD, "url": ""}},
    "a password in the address": {"tokenSecret": "token", "store": {**PASSWORD, "url": "postgres://baton:secret@db/baton"}},
    "an unknown value": {"tokenSecret": "token", "replica": 2},
}


def merged(base, other):
    both = dict(base)
    for name, value in other.items():
        both[name] = merged(base[name], value) if isinstance(value, dict) and isinstance(base.get(name), dict) else value
    return both


def render(chart, given):
    """The manifests of a chart, or a ValueError with why there are none."""
    values = merged(yaml.safe_load((chart / "values.yaml").read_text()), given)
    if helm := shutil.which("helm"):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(given, file)
            file.flush()
            done = subprocess.run([helm, "template", "test", chart, "-f", file.name], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        return list(filter(None, yaml.safe_load_all(done.stdout)))
    try:
        jsonschema.validate(values, json.loads((chart / "values.schema.json").read_text()))
    except jsonschema.ValidationError as error:
        raise ValueError(error.message) from error
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    data = {"Values": values, "Chart": {"Name": about["name"], "AppVersion": about["appVersion"]}, "Release": {"Name": "test"}}
    done = subprocess.run(["go", "run", "lab/peers/deploy.d/render.go", chart], input=json.dumps(data), capture_output=True, text=True, check=False, env={**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"})
    if done.returncode:
        raise ValueError(done.stderr)
    rendered = json.loads(done.stdout)
    rendered.pop("NOTES.txt")
    return [document for text in rendered.values() for document in yaml.safe_load_all(text) if document]


def valid(manifests, where):
    for manifest in manifests:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    # A selector that selects nothing is valid to the schema.
    pods = [m["spec"]["template"] for m in manifests if m["kind"] in ("Deployment", "StatefulSet")]
    labels = [pod["metadata"]["labels"] for pod in pods]
    for service in (m for m in manifests if m["kind"] == "Service"):
        wanted = service["spec"]["selector"].items()
        assert any(wanted <= found.items() for found in labels), f"{where}: service {service['metadata']['name']} selects no pod"
    for pod in pods:
        mounted = {mount["name"] for container in pod["spec"]["containers"] for mount in container.get("volumeMounts", [])}
        offered = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        offered |= {claim["metadata"]["name"] for m in manifests if m["kind"] == "StatefulSet" for claim in m["spec"].get("volumeClaimTemplates", [])}
        assert mounted <= offered, f"{where}: no volume {mounted - offered}"
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False and "limits" in container["resources"], f"{where}: {container['name']}"


def check_chart():
    chart = DEPLOY / "helm/baton"
    for case, values in CASES.items():
        manifests = render(chart, values)
        valid(manifests, case)
        kinds = sorted(manifest["kind"] for manifest in manifests)
        print(f"   chart, {case}: {', '.join(kinds)}")
        flags_exist([arg for m in manifests if m["kind"] in ("Deployment", "StatefulSet") for c in m["spec"]["template"]["spec"]["containers"] for arg in c["args"]])
    for case, values in REFUSED.items():
        try:
            render(chart, values)
        except ValueError:
            continue
        raise AssertionError(f"the chart accepts {case}")
    print(f"   chart: refuses {', '.join(REFUSED)}; rendered by {'helm' if shutil.which('helm') else 'Go templates'}")


def flags_exist(args):
    """Every flag of a command line is one of `baton serve`."""
    helps = subprocess.run([os.environ["BATON_BIN"], "serve", "--help"], capture_output=True, text=True, check=True).stdout
    for flag in (arg for arg in args if arg.startswith("--")):
        assert re.search(rf"{flag}\b", helps), f"`baton serve` has no {flag}"


def check_manifests():
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        manifests = list(filter(None, yaml.safe_load_all(path.read_text())))
        valid(manifests, path.name)
        print(f"   {path}: {len(manifests)} objects")


def check_compose():
    compose = shutil.which("docker-compose")
    for path in sorted(DEPLOY.glob("compose*.yaml")):
        found = yaml.safe_load(path.read_text())
        services, volumes, secrets = found["services"], found.get("volumes", {}), found.get("secrets", {})
        for name, service in services.items():
            assert "image" in service or "build" in service, f"{path}: {name} has neither image nor build"
            for volume in service.get("volumes", []):
                source = volume.split(":")[0] if isinstance(volume, str) else volume.get("source", "")
                assert source.startswith((".", "/")) or source in volumes, f"{path}: {name} mounts {source}, which is no volume"
            missing = set(service.get("secrets", [])) - set(secrets)
            assert not missing, f"{path}: {name} uses {missing}"
            needs = service.get("depends_on", [])
            assert set(needs) <= set(services), f"{path}: {name} depends on {needs}"
        if compose:
            done = subprocess.run([compose, "-f", path, "config", "-q"], capture_output=True, text=True, check=False, env={**os.environ, "BATON_TOKEN": "x", "RESTATE_PUBLIC_KEY": "publickeyv1_x"})
            assert done.returncode == 0, f"{path}: {done.stderr}"
        print(f"   {path}: {len(services)} services{', accepted by docker-compose' if compose else ''}")


def metric_names(text):
    return set(re.findall(r"\bbaton_[a-z_]+\b", text))


def check_metrics():
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "BATON_DB": f"{folder}/baton.db", "BATON_SCRIPT": "sample", "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder, "BATON_REGISTRY_URL": "off"}
        for name in ("BATON_STORE", "BATON_CONFIG"):
            environment.pop(name, None)
        server = subprocess.Popen([os.environ["BATON_BIN"], "serve", "--port", "0", "--json"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            url = json.loads(server.stdout.readline())["url"]
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            request = urllib.request.Request(f"{url}/api/runs", data=b'{"question": "What is it?", "flow": "research"}', headers={"content-type": "application/json"})
            opener.open(request, timeout=60).read()
            exposed = metric_names(opener.open(f"{url}/metrics", timeout=60).read().decode())
        finally:
            server.kill()
            server.wait()
    for path in (DEPLOY / "monitoring/alerts.yaml", DEPLOY / "monitoring/dashboard.json", Path("guide/src/runbook.md")):
        used = metric_names(path.read_text())
        assert used, f"{path} uses no metric"
        assert used <= exposed, f"{path} uses {sorted(used - exposed)}, which /metrics does not have"
        print(f"   {path}: {len(used)} metrics, all of them exposed")
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exposed}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in metric_names((DEPLOY / "monitoring/dashboard.json").read_text())}
    assert families <= shown, f"the dashboard does not show {sorted(families - shown)}"


def check_monitoring():
    rules = yaml.safe_load((DEPLOY / "monitoring/alerts.yaml").read_text())["groups"][0]["rules"]
    runbook = Path("guide/src/runbook.md").read_text()
    headings = {re.sub(r"[^a-z0-9-]", "", line.lstrip("# ").lower().replace(" ", "-")) for line in runbook.splitlines() if line.startswith("#")}
    for rule in rules:
        anchor = rule["annotations"]["runbook"].split("#")[1]
        assert anchor in headings and anchor == rule["alert"].lower(), f"the runbook has no {rule['alert']}"
    board = json.loads((DEPLOY / "monitoring/dashboard.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "rules", DEPLOY / "monitoring/alerts.yaml"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([promtool, "check", "config", "--syntax-only", DEPLOY / "monitoring/prometheus.yaml"], check=True, stdout=subprocess.DEVNULL)
        # Expressions of the dashboard are PromQL too, once Grafana has filled in its variables.
        queries = [target["expr"].replace("$instance", ".*") for panel in board["panels"] for target in panel["targets"]]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": [{"record": f"query:{n}", "expr": query} for n, query in enumerate(queries)]}]}, file)
            file.flush()
            subprocess.run([promtool, "check", "rules", file.name], check=True, stdout=subprocess.DEVNULL)
        print(f"   promtool accepts {len(rules)} alerts and {len(queries)} queries of the dashboard")
    else:
        print("   promtool is missing: rules are read as YAML only")


if __name__ == "__main__":
    failed = 0
    for check in (check_compose, check_manifests, check_chart, check_monitoring, check_metrics):
        try:
            check()
        except (AssertionError, ValueError, subprocess.CalledProcessError, kubernetes_validate.ValidationError) as error:
            failed = 1
            print(f"FAIL {check.__name__}: {error}", file=sys.stderr)
    sys.exit(failed)
