"""The report of `conch bench gateway`, of figures that are made up."""

from conch.bench.figures import latency_ms
from conch.bench.header import header
from conch.cli.demo import SPEECH
from lab.gateway import (
    FileFigures,
    GatewayBenchmark,
    GatewayReport,
    StreamFigures,
    markdown,
)


def test_the_tables_tell_what_the_gateway_adds() -> None:
    files = FileFigures(
        direct_ms=latency_ms([0.3, 0.3]),
        gateway_ms=latency_ms([0.302, 0.304]),
        added_ms=3.0,
        gateway_cpu_ms=5.5,
    )
    live = [
        StreamFigures(streams=8, direct_cpu=0.2, gateway_cpu=0.01),
    ]
    benchmark = GatewayBenchmark(audio=SPEECH)
    report = GatewayReport(header=header("gateway", benchmark), files=files, live=live)
    rows = [line.split("|") for line in markdown(report).splitlines()]
    cells = {row[1].strip(): [cell.strip() for cell in row[2:-1]] for row in rows if len(row) > 2}
    assert cells["p50 ms"] == ["300.0", "303.0"]
    assert cells["added ms, median of pairs"] == ["", "3.00"]
    # 5 % of what Triton takes without the gateway.
    assert cells["8"] == ["0.2000", "0.0100", "5.0"]
