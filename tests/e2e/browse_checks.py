"""One question about launcherd's page, asked in a headless Chromium on the host where launcherd runs.

    browse_checks.py URL jobs RUNNING COUNT   the list of jobs, when COUNT are waiting, and after "older jobs"
    browse_checks.py URL bars JOB LINES       what the log of JOB shows, once LINES of its lines say "done"
    browse_checks.py URL ends JOB             ranks and events of a job that has failed
    browse_checks.py URL access JOB           contrast of the log's text in the dark, and the way by keyboard

Each prints a JSON object; the first prints "ready" before it waits for the jobs' end.
"""

import json
import sys
import tempfile

from browse import PATIENCE, browser, texts
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

# For each selector: text colour, its opacity with that of its ancestors, and the ground behind it, as [r, g, b].
COLOURS = """
const ground = document.createElement("div");
ground.style.background = "Canvas";
document.body.append(ground);
const numbers = (text) => text.match(/[\\d.]+/g).map(Number).slice(0, 3);
const behind = numbers(getComputedStyle(ground).backgroundColor);
ground.remove();
return arguments[0].map((selector) => {
  const shown = document.querySelector(selector);
  let opacity = 1;
  for (let each = shown; each; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
  return { text: numbers(getComputedStyle(shown).color), opacity, ground: behind };
});
"""


def waiter(driver, seconds=PATIENCE):
    return WebDriverWait(driver, seconds)


def ids(driver):
    return texts(driver, "#jobs tbody td:first-child")


def jobs(driver, running, count):
    waiter(driver).until(lambda _: len(ids(driver)) >= int(count) + 1)
    seen = {"first": ids(driver)[0], "rows": len(ids(driver)), "summary": texts(driver, "#summary")[0]}
    print("ready", flush=True)
    waiter(driver, 120).until(lambda _: "1 running, 0 waiting" in texts(driver, "#summary")[0])
    waiter(driver).until(lambda _: len(ids(driver)) < int(count) + 1)
    seen["after"] = {"first": ids(driver)[0], "rows": len(ids(driver)), "has_running": running in ids(driver)}
    driver.find_element(By.ID, "older").click()
    waiter(driver).until(lambda _: len(ids(driver)) == int(count) + 1)
    seen["has_more"] = bool(texts(driver, "#older"))
    return seen


def bars(driver, job, lines):
    driver.get(driver.current_url + f"#{job}")
    waiter(driver, 120).until(lambda _: sum("done" in line for line in texts(driver, "#log div")) == int(lines))
    return {"log": texts(driver, "#log div")}


def ends(driver, job):
    driver.get(driver.current_url + f"#{job}")
    waiter(driver).until(lambda _: any("ended with exit code" in line for line in texts(driver, "#events li")))
    waiter(driver).until(lambda _: "failed" in texts(driver, "#job-title")[0])
    waiter(driver).until(lambda _: texts(driver, "#grid .cell.bad"))
    titles = driver.execute_script("return [...document.querySelectorAll('#grid .cell')].map((e) => e.title)")
    times = driver.execute_script("return [...document.querySelectorAll('#events time')].map((e) => [e.dateTime, e.textContent])")
    return {"bad": texts(driver, "#grid .cell.bad"), "stopped": texts(driver, "#grid .cell.stopped"), "titles": titles,
            "times": times, "events": texts(driver, "#events li span")}


def access(driver, job):
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    waiter(driver).until(lambda _: job in ids(driver))
    focused = "return document.activeElement.textContent"
    for _ in range(20):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        if driver.execute_script(focused) == job:
            break
    age = f"return document.querySelector('#jobs tr[data-job=\"{job}\"]').cells[4].textContent"
    before = driver.execute_script(age)
    waiter(driver).until(lambda _: driver.execute_script(age) != before)  # the list was drawn anew
    seen = {"focused": driver.execute_script(focused)}
    ActionChains(driver).send_keys(Keys.ENTER).perform()
    waiter(driver).until(lambda _: texts(driver, "#log .stderr"))
    waiter(driver).until(lambda _: texts(driver, "#log .stderr .label"))
    selectors = ["#log .stderr", "#log .stderr .label", "#log .stdout .label", "#events time", "#jobs th", "#jobs a"]
    return seen | {"colours": dict(zip(selectors, driver.execute_script(COLOURS, selectors)))}


def main():
    url, question, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            driver.get(url)
            waiter(driver).until(lambda _: texts(driver, "#hosts tbody tr"))
            seen = {"jobs": jobs, "bars": bars, "ends": ends, "access": access}[question](driver, *words)
            errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        finally:
            driver.quit()
    print(json.dumps(seen | {"errors": errors}))


main()
