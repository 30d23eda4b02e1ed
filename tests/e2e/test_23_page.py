"""launcherd's page in a browser, before a stand-in for launcherd (web_stand_in.py): accessibility by axe-core, hang
reports, actions, and jobs too large for test hosts."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest
from conftest import REPOSITORY
from web_stand_in import BIG, FAILED, HELD, HUNG, StandIn

selenium = pytest.importorskip("selenium", reason="python3-selenium is not installed")
from browse import PATIENCE, browser, texts  # noqa: E402
from browse_long import LONG_TASKS  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("chromedriver"), reason="chromium-driver is not installed")
AXE = REPOSITORY / "build/release/peers/axe/axe_playwright_python/axe.min.js"
RUN_AXE = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => JSON.stringify({passes: found.passes.length, violations:
  found.violations.map((each) => [each.id, each.help, each.nodes.slice(0, 3).map((node) => node.html.slice(0, 120))])}))
"""
SIZES = {"wide": (1400, 900), "narrow": (360, 800)}


@pytest.fixture(scope="module")
def axe():
    """The text of axe-core. A machine that cannot fetch it skips the test, or fails it with MUSTER_REQUIRE_CLUSTER=1."""
    if not AXE.exists():
        fetched = subprocess.run([REPOSITORY / "tools/peers", "axe"], capture_output=True, text=True, timeout=300)
        if fetched.returncode:
            problem = f"axe-core could not be fetched by tools/peers axe: {fetched.stderr.strip()[-200:]}"
            if os.environ.get("MUSTER_REQUIRE_CLUSTER") == "1":
                pytest.fail(problem + " (MUSTER_REQUIRE_CLUSTER=1)", pytrace=False)
            pytest.skip(problem)
    return AXE.read_text()


@pytest.fixture(scope="module")
def driver():
    with tempfile.TemporaryDirectory() as profile:
        made = browser(profile)
        made.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LONG_TASKS})
        yield made
        made.quit()


@pytest.fixture
def no_errors(driver):
    yield
    assert [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.fixture(scope="module")
def small():
    with StandIn() as made:
        yield made


def wait(driver, condition, what=""):
    return WebDriverWait(driver, PATIENCE).until(lambda _: condition(), what)


def shows(driver, base, where, selector):
    """Loads the page anew, until it shows this element with a text."""
    driver.get(base + where)
    driver.refresh()
    wait(driver, lambda: [text for text in texts(driver, selector) if text.strip()], f"{where} has no {selector}")


PAGES = [("#/", "#map > div"), (f"#/job/{BIG}", "#gantt text"), (f"#/job/{FAILED}", "#failure li"),
         (f"#/job/{HUNG}/hang", "#hang-report h4"), (f"#/job/{HUNG}", "#wrong-world p"), ("#/host/n1", "#host-graphs figcaption")]


@pytest.mark.parametrize("size, scheme", [("wide", "light"), ("narrow", "dark")])
def test_axe_finds_no_violation(axe, driver, small, no_errors, size, scheme):
    width, height = SIZES[size]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "narrow"})
    for where, selector in PAGES:
        shows(driver, small.url, where, selector)
        if where.startswith("#/job/") and not where.endswith("/hang"):
            wait(driver, lambda: len(texts(driver, "#log div")) == 40)
        driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})  # the page's policy forbids it as a script
        answer = driver.execute_cdp_cmd("Runtime.evaluate", {"expression": RUN_AXE, "awaitPromise": True, "returnByValue": True})
        found = json.loads(answer["result"]["value"])
        assert found["violations"] == [] and found["passes"] > 15, (where, found)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width, where
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_hang_report_has_a_page(driver, small, no_errors):
    shows(driver, small.url, f"#/job/{HUNG}", "#hang li")
    assert texts(driver, "#hang li") == ["rank 3 (rank 3 on n4): /home/ann/train.py:41 in DataLoader.next, for 1 min 5 s"]
    assert "late: 1" in texts(driver, "#rank-legend")[0] and texts(driver, "#grid .late") == ["5"]
    driver.find_element(By.LINK_TEXT, "the hang report").click()
    wait(driver, lambda: texts(driver, "#hang-report tbody tr"))
    rank, example, host, source, since = texts(driver, "#hang-report tbody td")
    assert (rank, example, host, source) == ("rank 3", "3", "n4", "/home/ann/train.py:41 in DataLoader.next"), source
    assert since == "for 1 min 5 s"
    assert texts(driver, "#hang-report h4") == ["Suspect: rank 3", "ranks 0-2,4-15"]
    assert any(line.startswith("NCCL: rank 3 ") for line in texts(driver, "#hang-report li"))
    assert "torch: nccl:all_reduce started, number 18 in default_pg" in texts(driver, "#hang-report li")
    assert driver.execute_script("return [...document.querySelectorAll('#hang-report details')].map((e) => e.open)") == [False, False]
    driver.find_element(By.ID, "hang-ask").click()
    wait(driver, lambda: texts(driver, "#hang-state")[0].startswith("asked at "))
    assert re.fullmatch(r"\d\d:\d\d:\d\d, for 1 min 5 s", texts(driver, "#hang-report tbody td")[4])
    driver.find_element(By.CSS_SELECTOR, "#hang-copy button").click()
    wait(driver, lambda: texts(driver, "#hang-copy button") == ["copied"])


def test_a_failed_job_says_why(driver, small, no_errors):
    shows(driver, small.url, f"#/job/{FAILED}", "#failure li")
    wait(driver, lambda: texts(driver, "#failure p") == ["Root cause: rank 3 on n4: exit code 1"])  # from the events
    assert texts(driver, "#failure li") == small.server.answers.special[FAILED]["hints"]
    facts = dict(zip(texts(driver, "#job-facts dt"), texts(driver, "#job-facts dd")))
    assert (facts["user"], facts["directory"]) == ("ann", "/home/ann/project copy"), facts
    assert {text.split()[0] for text in texts(driver, "#job-graphs figcaption")} >= {"network", "steps", "CPU"}


def test_jobs_are_held_released_and_run_again(driver, small, no_errors):
    def press(job, action):
        shows(driver, small.url, f"#/job/{job}", "#job-actions button")
        driver.execute_script("sessionStorage.setItem('token', 'a token')")
        driver.find_element(By.XPATH, f"//p[@id='job-actions']/button[text()='{action}']").click()
        wait(driver, lambda: "done" in texts(driver, "#job-action")[0])

    small.posts.clear()
    press(HELD, "release")
    press(FAILED, "rerun")
    assert texts(driver, "#job-action a") == ["newaaaaa"]
    held = small.server.answers.special[HELD]
    held["held"] = False
    press(HELD, "hold")
    held["held"] = True
    release, rerun, hold = small.posts
    assert (release, hold) == (f"/api/jobs/{HELD}/release", f"/api/jobs/{HELD}/hold")
    assert re.fullmatch(rf"/api/jobs/{FAILED}/rerun\?request_id=[0-9a-f-]{{36}}", rerun), rerun


def test_a_job_that_has_ended_has_buttons_however_late_launcherd_says_that_it_serves_them(driver, no_errors):
    with StandIn() as slow:
        slow.server.job_asks_before_launcher = 3  # at first, and at the ends of its events and of its log
        shows(driver, slow.url, f"#/job/{FAILED}", "#job-actions button")


def test_ten_thousand_ranks_on_a_thousand_hosts(driver, no_errors):
    with StandIn(ranks=10_000, hosts=1_000, jobs=10_000) as large:
        shows(driver, large.url, f"#/job/{BIG}", "#gantt text")
        wait(driver, lambda: texts(driver, "#rank-legend") == [" running: 10000"])
        assert texts(driver, "#rank-page") == ["hosts n1 to n25, page 1 of 40"]
        assert driver.find_element(By.ID, "rank-picture").get_attribute("aria-label").startswith("all ranks, running: 10000; ")
        driver.find_element(By.ID, "grid").click()
        ActionChains(driver).send_keys(Keys.END).perform()
        wait(driver, lambda: texts(driver, "#rank-page") == ["hosts n976 to n1000, page 40 of 40"])
        assert texts(driver, "#rank-detail")[0].startswith("rank 9999, running")
        driver.execute_script("document.getElementById('trouble').click()")  # it may be below the header
        wait(driver, lambda: texts(driver, "#no-ranks") == ["no rank is in trouble"])
        wait(driver, lambda: len(texts(driver, "#events li")) >= 1000)
        assert driver.execute_script("return document.querySelectorAll('*').length") < 8000
        long_tasks = driver.execute_script("return longTasks")
        print(long_tasks)
        assert max(long_tasks, default=0) < 1000, long_tasks  # 100 on a machine of its own: bench/results
        driver.find_element(By.CSS_SELECTOR, "h1 a").click()
        wait(driver, lambda: len(texts(driver, "#map > div")) == 1000)
        assert texts(driver, "#host-attention li") == ["10 drained: n97,n194,n291,n388,n485,n582,n679,n776,n873,n970"]
        assert texts(driver, "#page-text") == ["1–100 of 10,000"]
