"""Long tasks of a page in a headless Chromium on this machine: wall time, and the time on a processor."""

import json
import tempfile
import time

from browse import browser, texts
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 30
TRACED = {"enableNetwork": False, "traceCategories": "devtools.timeline,disabled-by-default-devtools.timeline"}


def tasks_of(driver):
    """[[wall, processor]] in ms for each task of the page's main thread that took 50 ms or more, longest first."""
    events = [message["params"] for entry in driver.get_log("performance")
              if (message := json.loads(entry["message"])["message"])["method"] == "Tracing.dataCollected"]
    of_page = {event["pid"] for event in events if "127.0.0.1" in str(event.get("args", {}).get("data", {}))}
    mains = {(event["pid"], event["tid"]) for event in events
             if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"}
    tasks = [event for event in events if event.get("name") == "RunTask" and event.get("ph") == "X"
             and (event["pid"], event["tid"]) in mains and event["pid"] in of_page]
    return sorted(([round(task["dur"] / 1000), round(task.get("tdur", 0) / 1000)] for task in tasks if task["dur"] >= 50_000),
                  reverse=True)


def long_tasks(url, ready, seconds=SECONDS):
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile, traced=TRACED)
        try:
            driver.get(url)
            WebDriverWait(driver, 120).until(lambda _: texts(driver, ready))
            time.sleep(seconds)
            return tasks_of(driver)
        finally:
            driver.quit()
