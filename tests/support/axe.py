"""What axe-core finds on a page."""

from playwright.sync_api import Page
from programs import NODE_TESTS, required


def serious_problems(page: Page) -> list[str]:
    """Return what axe-core finds on a page: what keeps somebody from using it."""
    required("npm")
    # Not a script of the page, whose content security policy would forbid it.
    page.evaluate((NODE_TESTS / "node_modules" / "axe-core" / "axe.min.js").read_text())
    result = page.evaluate("axe.run()")
    assert len(result["passes"]) > 10
    return [
        f"{problem['id']}: {node['html']} {node['failureSummary']}"
        for problem in result["violations"]
        if problem["impact"] in ("serious", "critical")
        for node in problem["nodes"]
    ]
