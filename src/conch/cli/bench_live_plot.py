"""The picture of `conch bench live --plot`."""

from collections.abc import Sequence
from pathlib import Path

from conch.bench.live_figures import LiveRun


def plot(runs: Sequence[LiveRun], path: Path, rate: str = "WER") -> None:
    """Draw error rates against the number of streams.

    A line is left out if no run has its figure. A hollow point marks a run that fell behind.

    Args:
        runs: of a report, in any order.
        path: of the picture; its suffix is its format.
        rate: name of the error rate.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ordered = sorted(runs, key=lambda run: run.streams)
    lines = {
        "on the screen after 1 s": [run.screen_wer_1s for run in ordered],
        "on the screen after 2 s": [run.screen_wer_2s for run in ordered],
        "final text": [run.wer for run in ordered],
        "offline": [run.offline_wer for run in ordered],
    }
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for title, values in lines.items():
        known = [
            (run, 100 * value)
            for run, value in zip(ordered, values, strict=True)
            if value is not None
        ]
        if not known:
            continue
        points = [(run.streams, wer) for run, wer in known]
        (line,) = axes.plot(*zip(*points, strict=True), "o-", label=title)
        behind = [(run.streams, wer) for run, wer in known if not run.keeps_up]
        if behind:
            axes.plot(
                *zip(*behind, strict=True), "o", color=line.get_color(), markerfacecolor="white"
            )
    axes.set(
        xlabel="streams at once (hollow: the server fell behind)",
        ylabel=f"{rate} %",
        ylim=(0, None),
    )
    axes.set_xticks([run.streams for run in ordered])
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
