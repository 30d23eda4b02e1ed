"""launcherd's page in a headless Chromium, as its user sees it: run on the host where launcherd runs.

    browse.py URL JOB SCREENSHOT     prints a JSON object with what was seen
"""

import json
import sys
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 40


def browser(profile, traced=None):
    """traced: what perfLoggingPrefs of chromedriver take, for get_log("performance")."""
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
                 "--window-size=1400,1000", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"} | ({"performance": "ALL"} if traced else {}))
    if traced:
        options.add_experimental_option("perfLoggingPrefs", traced)
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def texts(driver, selector):
    return driver.execute_script("return [...document.querySelectorAll(arguments[0])].filter((e) => !e.hidden)"
                                 ".map((e) => e.textContent)", selector)


def look(driver, url, job, screenshot):
    wait = WebDriverWait(driver, PATIENCE)
    driver.get(url)
    wait.until(lambda _: texts(driver, "#map > div"))
    wait.until(lambda _: sum("%" in host for host in texts(driver, "#map > div")) == 2)
    overview = {"hosts": texts(driver, "#map > div")}
    row = wait.until(lambda _: driver.find_element(By.CSS_SELECTOR, f'#jobs tr[data-job="{job}"]'))
    row.click()
    wait.until(lambda _: len(texts(driver, "#grid .cell.running")) == 4)
    wait.until(lambda _: any("line 299" in line for line in texts(driver, "#log div")))
    wait.until(lambda _: all("%" in load for load in texts(driver, "#grid .load")))
    wait.until(lambda _: any("RUNNING" in line for line in texts(driver, "#events li")))
    seen = {"summary": texts(driver, "#summary")[0], **overview,
            "grid": {line: cells for line, cells in zip(texts(driver, "#grid th"), driver.execute_script(
                "return [...document.querySelectorAll('#grid .ranks')].map((e) => e.children.length)"))},
            "loads": texts(driver, "#grid .load"), "legend": texts(driver, "#rank-legend .entry"),
            "facts": dict(zip(texts(driver, "#job-facts dt"), texts(driver, "#job-facts dd"))),
            "bars": driver.execute_script("return document.querySelectorAll('#gantt .bar.running').length"),
            "events": texts(driver, "#events li span"), "lines": len(texts(driver, "#log div")),
            "injected": driver.execute_script("return document.querySelectorAll('#log img').length")}
    driver.save_screenshot(screenshot)
    field = driver.find_element(By.ID, "search")
    field.send_keys("line 299")
    wait.until(lambda _: "of" in driver.find_element(By.ID, "found").text)
    seen["found"] = texts(driver, "#log div")
    seen["marked"] = len(texts(driver, "#log div:not([hidden]) mark"))
    return seen


def end_of(driver, job):
    """Until the page itself shows the end; nothing is loaded again."""
    wait = WebDriverWait(driver, PATIENCE)
    print("ready", flush=True)  # whoever waits for it ends the job
    wait.until(lambda _: any("ended with exit code" in line for line in texts(driver, "#events li")))
    wait.until(lambda _: "killed" in texts(driver, "#job-title")[0])
    return {"title": texts(driver, "#job-title")[0], "cells": texts(driver, "#grid .cell.stopped"),
            "errors": [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]}


def main():
    url, job, screenshot = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            seen = look(driver, url, job, screenshot)
            seen.update(end_of(driver, job))
        finally:
            driver.quit()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
