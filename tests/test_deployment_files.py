"""Holds Dockerfile and docker-compose.yml against the code that they run, without an engine."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

from activities.version import VERSION

ROOT = Path(__file__).parent.parent
OURS = ("api", "workflow-worker", "generate-worker")
WORKERS = OURS[1:]
ROLES = {"workflows", "generate", "postprocess"}


def seconds(duration: str) -> int:
    """Understands the two units that the file uses."""
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


Seconds = Annotated[int, BeforeValidator(seconds)]


class Section(BaseModel):
    """A mapping of the compose specification: a key that is not listed is a typing error."""

    model_config = ConfigDict(extra="forbid")


class Healthcheck(Section):
    test: list[str]
    interval: Seconds
    timeout: Seconds
    retries: int
    start_period: Seconds


class Service(Section):
    """No `container_name`: with one, a service could not be scaled."""

    image: str
    build: dict[str, Any] = {}
    restart: Literal["no", "unless-stopped"]
    entrypoint: list[str] = []
    command: list[str] = []
    environment: dict[str, str] = {}
    volumes: list[str] = []
    ports: list[str] = []
    depends_on: dict[str, dict[Literal["condition"], str]] = {}
    healthcheck: Healthcheck | None = None
    stop_grace_period: Seconds = 10
    init: bool = False
    read_only: bool = False
    tmpfs: list[str] = []
    cap_drop: list[str] = []
    security_opt: list[str]
    logging: dict[str, Any]
    mem_limit: str = ""
    pids_limit: int = 0


class Compose(Section):
    name: str
    services: dict[str, Service]
    volumes: dict[str, None]


def interpolated(text: str) -> str:
    """Every `${NAME:-default}` as its default, from the inside out, as with an empty .env."""
    inner = re.compile(r"\$\{\w+:-([^${}]*)\}")
    while inner.search(text):
        text = inner.sub(r"\1", text)
    return text


@pytest.fixture(scope="module")
def compose() -> Compose:
    """The file as it is without an .env, its `x-` sections merged into the services."""
    content = yaml.safe_load(interpolated(read("docker-compose.yml")))
    return Compose.model_validate({k: v for k, v in content.items() if not k.startswith("x-")})


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def output_of(*command: str) -> str:
    """What the command says, on either stream; it has to succeed."""
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


def instructions(name: str, stage: int = -1) -> Iterator[list[str]]:
    """The words of each instruction of that name, in the last stage unless told otherwise."""
    joined = re.sub(r"\\\n\s*", "", read("Dockerfile"))
    stages = re.split(r"^(?=FROM )", joined, flags=re.MULTILINE)[1:]
    for line in stages[stage].splitlines():
        if line.startswith(f"{name} "):
            yield line.split()[1:]


def project() -> Any:
    return tomllib.loads(read("pyproject.toml"))


def variables_read_by(*patterns: str) -> set[str]:
    """The names that the sources spell out, and those of the fields of their settings."""
    names: set[str] = set()
    for path in (path for pattern in patterns for path in ROOT.glob(pattern)):
        source = path.read_text(encoding="utf-8")
        names |= set(re.findall(r"\bDARKROOM_[A-Z_]+\b", source))
        if path.name == "settings.py":
            fields = re.findall(r"^    (\w+): ", source, flags=re.MULTILINE)
            names |= {f"DARKROOM_{field.upper()}" for field in fields}
    return names


def is_in_build_context(path: str) -> bool:
    """Reads .dockerignore as Docker does: the last line that matches decides."""
    included = True
    for line in read(".dockerignore").splitlines():
        pattern = line.removeprefix("!")
        if (
            line
            and not line.startswith("#")
            and any(fnmatch(part, pattern) for part in (path, path.partition("/")[0]))
        ):
            included = line.startswith("!")
    return included


def test_docker_compose_itself_accepts_the_file() -> None:
    beside = shutil.which("docker-compose", path=str(Path(sys.executable).parent))
    program = beside or shutil.which("docker-compose")
    if program is None:
        pytest.skip("no docker-compose here; the models above know the keys that are used")
    assert output_of(program, "--env-file", "/dev/null", "config", "--quiet") == ""


def test_every_image_is_pinned_to_a_version(compose: Compose) -> None:
    bases = {words[0] for stage in (0, 1) for words in instructions("FROM", stage)}
    assert len(bases) == 1, "both stages need the same Python, or the environment is of no use"
    for image in {service.image for service in compose.services.values()} | bases:
        assert re.fullmatch(r"(postgres:\d+|[a-z/-]+:\d+\.\d+)\.\d+(-[a-z-]+)?", image), image


def test_images_of_one_release_have_one_version(compose: Compose) -> None:
    version = {name: service.image.split(":")[1] for name, service in compose.services.items()}
    assert version["temporal"] == version["temporal-schema"] == version["temporal-namespace"]
    assert {version[name] for name in OURS} == {project()["project"]["version"]} == {VERSION}


def test_nothing_grows_or_is_written_where_nobody_looks(compose: Compose) -> None:
    used = set()
    for service in compose.services.values():
        assert service.logging["options"].keys() == {"max-size", "max-file"}
        for source, *target in (volume.split(":") for volume in service.volumes):
            is_file_of_ours = source.startswith("./") and (ROOT / source).is_file()
            used |= set() if is_file_of_ours and target[-1] == "ro" else {source}
    assert used == set(compose.volumes)


def test_only_loopback_ports_are_published(compose: Compose) -> None:
    published = [port for service in compose.services.values() for port in service.ports]
    assert set(published) == {f"127.0.0.1:{p}" for p in ("7233:7233", "8000:8000", "8233:8080")}
    assert not any(compose.services[name].ports for name in WORKERS), "two would want one port"
    assert compose.services["api"].environment["DARKROOM_ALLOW_NO_KEYS"] == "on", "harmless then"


def test_whoever_waits_for_a_service_waits_for_what_it_can_become(compose: Compose) -> None:
    for service in compose.services.values():
        for name, dependency in service.depends_on.items():
            awaited, condition = compose.services[name], dependency["condition"]
            ends = condition == "service_completed_successfully"
            assert (awaited.restart == "no") == ends, name
            assert ends or awaited.healthcheck, name
    for name in OURS:
        assert "temporal-namespace" in compose.services[name].depends_on
    # Dependents stop first, and somebody has to take the jobs that a stopping worker hands back.
    assert "workflow-worker" in compose.services["generate-worker"].depends_on


def test_all_parts_of_the_database_connection_agree(compose: Compose) -> None:
    database, server = compose.services["postgresql"], compose.services["temporal"]
    schema = compose.services["temporal-schema"].environment
    password, user = (database.environment[f"POSTGRES_{key}"] for key in ("PASSWORD", "USER"))
    assert password == server.environment["POSTGRES_PWD"] == schema["SQL_PASSWORD"]
    assert user == server.environment["POSTGRES_USER"] == schema["SQL_USER"]
    assert server.environment["POSTGRES_SEEDS"] == schema["SQL_HOST"] == "postgresql"


def test_the_image_runs_as_the_owner_of_its_data_and_not_as_root() -> None:
    assert list(instructions("USER")) == [["10001:10001"]]
    assert "--owner 10001 --group 10001 --mode 0750 /data" in read("Dockerfile")


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_more_rights_than_they_need(compose: Compose, name: str) -> None:
    service = compose.services[name]
    assert service.read_only
    assert service.init
    assert service.cap_drop == ["ALL"]
    assert service.security_opt == ["no-new-privileges:true"]
    assert service.pids_limit
    assert service.environment["DARKROOM_DATA_DIR"] == service.volumes[0].split(":")[1]


def test_the_api_is_a_module_that_python_can_run(compose: Compose) -> None:
    assert list(instructions("ENTRYPOINT")) == [['["python"]']]
    assert compose.services["api"].command == ["-m", "api"]
    assert (ROOT / "api" / "__main__.py").is_file()


def test_the_workers_together_serve_every_queue(compose: Compose) -> None:
    commands = [compose.services[name].command for name in WORKERS]
    assert {(script, option) for script, option, _ in commands} == {("worker.py", "--serve")}
    served = [role for *_, roles in commands for role in roles.split(",")]
    assert sorted(served) == sorted(ROLES)
    assert set(re.findall(r"\w+", output_of(sys.executable, "worker.py", "--help"))) >= ROLES


def test_containers_are_given_only_variables_that_the_code_reads(compose: Compose) -> None:
    given = {name for ours in OURS for name in compose.services[ours].environment}
    given |= {word.partition("=")[0] for words in instructions("ENV") for word in words}
    known = variables_read_by("worker.py", "api/**/*.py", "workflows/**/*.py", "activities/**/*.py")
    assert {name for name in given if name.startswith("DARKROOM_")} <= known


def test_env_example_shows_all_that_may_be_changed_and_the_defaults() -> None:
    overridable = dict(re.findall(r"\$\{(\w+):-([^${}]*)", read("docker-compose.yml")))
    example = read(".env.example")
    assert set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE)) == set(overridable)
    shown = dict(re.findall(r"^([A-Z_]+)=(.*)$", example, re.MULTILINE))
    assert shown.items() <= overridable.items()
    known = variables_read_by("worker.py", "dev*.py", "devstack/*.py", "a*/**/*.py")
    assert {name for name in overridable if name.startswith("DARKROOM_")} <= known


@pytest.mark.parametrize(
    ("name", "variable"),
    [("api", "API_PORT"), ("workflow-worker", "HEALTH_PORT"), ("generate-worker", "HEALTH_PORT")],
)
def test_health_is_asked_at_the_port_where_it_is_served(
    compose: Compose, name: str, variable: str
) -> None:
    service = compose.services[name]
    assert service.healthcheck
    *_, code = service.healthcheck.test
    compile(code, name, "exec")
    assert f"http://127.0.0.1:{service.environment[f'DARKROOM_{variable}']}/readyz" in code
    assert f"timeout={service.healthcheck.timeout - 1}" in code


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_time_to_hand_its_jobs_back(compose: Compose, name: str) -> None:
    service = compose.services[name]
    assert service.stop_grace_period >= int(service.environment["DARKROOM_GRACE_SECONDS"]) + 10


def test_dynamic_config_is_what_dev_gives_to_its_server() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "devstack").glob("*.py"))
    given = re.findall(r"""["']((?:matching|history)\.\w+)=(.+?)["'],$""", sources, re.MULTILINE)
    ours = yaml.safe_load(read("docker/dynamicconfig.yaml"))
    assert ours == {key: [{"value": json.loads(value)}] for key, value in given}


def test_the_image_holds_every_package_and_nothing_that_is_not_there() -> None:
    sources = [word.rstrip("/") for words in instructions("COPY") for word in words[:-1]]
    copied = [source for source in sources if not source.startswith(("--", "/"))]
    setuptools = project()["tool"]["setuptools"]
    packages = {pattern.rstrip("*") for pattern in setuptools["packages"]["find"]["include"]}
    assert set(copied) == packages - {"devstack"} | {"worker.py"}
    built_from = [word for words in instructions("COPY", stage=0) for word in words[:-1]]
    for source in (*copied, *built_from):
        assert (ROOT / source).exists(), source
        assert is_in_build_context(source), source


@pytest.mark.parametrize("path", [".git", ".env", "data", "tests", "dev.py", "docker/other"])
def test_what_the_image_does_not_need_stays_out_of_the_build(path: str) -> None:
    assert not is_in_build_context(path)


def test_requirements_of_the_image_are_those_of_the_project() -> None:
    listed = output_of(sys.executable, "docker/requirements.py").splitlines()
    assert listed == project()["project"]["dependencies"]


@pytest.mark.parametrize("script", ["docker/setup-schema.sh", "docker/create-namespace.sh"])
def test_shell_scripts_parse(script: str) -> None:
    assert output_of("/bin/sh", "-n", script) == ""
