"""The collector of Triton's traces is that of the models."""

from conch.launcher.installation import DEFAULT_TRACES_URL, trace_environment

ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
RESOURCE = "OTEL_RESOURCE_ATTRIBUTES"

OPEN = ("--trace-config", "mode=opentelemetry")


def test_the_collector_and_the_names_of_the_service_are_those_of_triton():
    arguments = (
        *("--log-verbose", "1", *OPEN),
        "--trace-config=opentelemetry,url=http://collector:4318/v1/traces",
        *("--trace-config", "opentelemetry,resource=service.name=conch"),
        "--trace-config=opentelemetry,resource=deployment.environment=test",
    )
    assert trace_environment(arguments, {"PATH": "/bin"}) == {
        "PATH": "/bin",
        ENDPOINT: "http://collector:4318/v1/traces",
        RESOURCE: "service.name=conch,deployment.environment=test",
    }


def test_without_an_address_it_is_the_one_that_triton_takes():
    assert trace_environment(OPEN, {})[ENDPOINT] == DEFAULT_TRACES_URL


def test_what_the_environment_says_stays():
    own = {ENDPOINT: "http://mine/v1/traces", RESOURCE: "service.name=mine"}
    assert trace_environment(OPEN, own) == own


def test_triton_s_own_traces_have_no_collector():
    arguments = ("--trace-config", "mode=triton", "--trace-config=triton,file=/tmp/trace.json")
    assert trace_environment(arguments, {"PATH": "/bin"}) == {"PATH": "/bin"}
    assert trace_environment(("--trace-config",), {}) == {}
