"""launcherd's page in a headless Chromium for longer: run on the host where launcherd runs.

    browse_long.py URL bars JOB SECONDS RANKS  samples while the bars of JOB move, then while launcherd is away and comes back
    browse_long.py URL log JOB WORD            samples until the output of JOB ends with WORD; then scrolls, and searches WORD

Each prints a JSON object: samples (time, bytes of the JS heap after a garbage collection, DOM nodes), long_tasks_ms,
errors. `bars` prints "ready" before it waits for launcherd's end, and "lost" when the page has reported it.
"""

import json
import sys
import tempfile
import time

from browse import browser, texts
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

SAMPLES = 12
MOST_SECONDS = 900
LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((entry) => Math.round(entry.duration))))
  .observe({ entryTypes: ["longtask"] });
"""
# The browser itself writes these when launcherd is away. A page cannot prevent them.
REFUSED = ("net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR_CONNECTION_RESET", "net::ERR_EMPTY_RESPONSE")
SCROLL = """
const [done, pane] = [arguments[0], document.getElementById("log")];
document.getElementById("stay").checked = false;
let step = 0;
const frame = () => {
  pane.scrollTop = step % 2 ? 0 : pane.scrollHeight * step / 60;
  if (++step < 60) requestAnimationFrame(frame); else done(step);
};
requestAnimationFrame(frame);
"""


class Page:
    def __init__(self, driver):
        self.driver = driver
        self.began = time.monotonic()
        self.samples = []

    def wait(self, condition, seconds=120):
        return WebDriverWait(self.driver, seconds).until(lambda _: condition())

    def sample(self):
        self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        used = self.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"]
        nodes = self.driver.execute_cdp_cmd("Memory.getDOMCounters", {})["nodes"]
        self.samples.append([round(time.monotonic() - self.began, 1), int(used), nodes])

    def take_long_tasks(self):
        return self.driver.execute_script("return longTasks.splice(0)")


def bars(page, job, seconds, ranks):
    seconds, ranks = float(seconds), int(ranks)
    page.wait(lambda: sum("it" in line for line in texts(page.driver, "#log div")) >= ranks)
    for _ in range(max(SAMPLES, round(seconds / 10))):
        time.sleep(seconds / max(SAMPLES, round(seconds / 10)))
        page.sample()
    seen = {"long_tasks_ms": page.take_long_tasks()}
    print("ready", flush=True)
    page.wait(lambda: "does not answer" in texts(page.driver, "#problem")[0])
    lost = time.monotonic()
    print("lost", flush=True)
    page.wait(lambda: texts(page.driver, "#problem") == [""])
    before = texts(page.driver, "#log div")
    page.wait(lambda: sum(a != b for a, b in zip(before, texts(page.driver, "#log div"))) >= ranks)
    seen["back_s"] = round(time.monotonic() - lost, 1)
    page.sample()
    return seen | {"lines": len(texts(page.driver, "#log div")), "outage_long_tasks_ms": page.take_long_tasks()}


def log(page, job, word):
    page.wait(lambda: texts(page.driver, "#log div") and ":" in texts(page.driver, "#job-title")[0])
    until = time.monotonic() + MOST_SECONDS
    while word not in texts(page.driver, "#log div")[-1] and time.monotonic() < until:  # the page may be behind the job
        page.sample()
        time.sleep(2)
    page.sample()
    seen = {"long_tasks_ms": page.take_long_tasks(), "lines": len(texts(page.driver, "#log div"))}
    page.driver.set_script_timeout(60)
    page.driver.execute_async_script(SCROLL)
    page.driver.find_element(By.ID, "search").send_keys(word)
    page.wait(lambda: set(texts(page.driver, "#log mark")) == {word})
    page.sample()
    return seen | {"scroll_and_search_long_tasks_ms": page.take_long_tasks()}


def main():
    url, question, job, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LONG_TASKS})
            driver.get(f"{url}/#/job/{job}")
            page = Page(driver)
            seen = {"bars": bars, "log": log}[question](page, job, *words)
            entries = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        finally:
            driver.quit()
    errors = [message for message in entries if not any(word in message for word in REFUSED)]
    print(json.dumps(seen | {"samples": page.samples, "errors": errors, "refused": len(entries) - len(errors)}))


if __name__ == "__main__":
    main()
