"""One question about launcherd's page, asked in a headless Chromium on the host where launcherd runs.

    browse_checks.py URL jobs RUNNING COUNT   the list of jobs, when COUNT are waiting, its next page, and a filter
    browse_checks.py URL bars JOB LINES       what the log of JOB shows, once LINES of its lines say "done"
    browse_checks.py URL ends JOB             ranks and events of a job that has failed
    browse_checks.py URL access JOB           the way by keyboard, and contrasts in the dark and in the light
    browse_checks.py URL narrow JOB           what is wider than a screen of 360 pixels
    browse_checks.py URL many COUNT           times of a list of COUNT jobs
    browse_checks.py URL live JOB             frames and long tasks while its bars move
    browse_checks.py URL kill JOB TOKEN       a kill with a wrong token, and one with the right one
    browse_checks.py URL array JOB            the elements of an array, by pages, and the page of one of them
    browse_checks.py URL log JOB              colours, filters and times of the output, and the stacks

Each prints a JSON object; the first prints "ready" before it waits for the jobs' end.
"""

import json
import sys
import tempfile
import time

from browse import PATIENCE, browser, texts
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import Select, WebDriverWait

# Elements with text whose contrast to their ground is below 4.5 (WCAG 2 AA), and how many elements have text.
CONTRASTS = """
const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1]; };
const over = (top, under) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * under[i]);
const luminance = (colour) => {
  const [r, g, b] = colour.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const low = [];
let checked = 0;
for (const shown of document.body.querySelectorAll("*")) {
  const hasText = [...shown.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (shown.closest("#log div:nth-child(n+50)")) continue;  // the first lines stand for all
  if (!hasText || !shown.checkVisibility() || shown.closest("[disabled]")) continue;
  const grounds = [];
  let opacity = 1;
  for (let each = shown; each; each = each.parentElement) {
    opacity *= Number(getComputedStyle(each).opacity);
    grounds.push(parse(getComputedStyle(each).backgroundColor));
  }
  const ground = grounds.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  const style = getComputedStyle(shown);
  const colour = parse(shown.closest("svg") ? style.fill : style.color);
  colour[3] *= opacity;
  const [high, lower] = [luminance(over(colour, ground)), luminance(ground)].sort((a, b) => b - a);
  const ratio = (high + 0.05) / (lower + 0.05);
  ++checked;
  if (ratio < 4.5) low.push(`${shown.tagName}.${shown.getAttribute("class")} ${shown.textContent.slice(0, 20)}: ${ratio.toFixed(2)}`);
}
return {checked, low, ground: luminance(parse(getComputedStyle(document.body).backgroundColor).slice(0, 3))};
"""
# Form fields and buttons without a name for a screen reader.
NAMELESS = """
return [...document.querySelectorAll("input, select, button, [role=listbox], [role=img]")].filter((each) => each.checkVisibility())
  .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() && each.tagName === "BUTTON" || each.labels?.length))
  .map((each) => each.outerHTML.slice(0, 80));
"""
LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((entry) => Math.round(entry.duration))))
  .observe({ entryTypes: ["longtask"] });
"""


def waiter(driver, seconds=PATIENCE):
    return WebDriverWait(driver, seconds)


def ids(driver):
    return texts(driver, "#jobs tbody td:first-child")


def ids(driver):
    return texts(driver, "#jobs tbody td:first-child")


def jobs(driver, running, count):
    waiter(driver).until(lambda _: f"1 running, {count} waiting" in texts(driver, "#summary")[0])
    waiter(driver).until(lambda _: len(ids(driver)) == 100)
    seen = {"first": ids(driver)[0], "summary": texts(driver, "#summary")[0], "page": texts(driver, "#page-text")[0]}
    first = ids(driver)
    driver.find_element(By.ID, "next").click()
    waiter(driver).until(lambda _: ids(driver) and ids(driver)[0] != first[0])
    seen["second"] = {"page": texts(driver, "#page-text")[0], "repeated": sorted(set(first) & set(ids(driver)))}
    driver.find_element(By.ID, "previous").click()
    waiter(driver).until(lambda _: ids(driver)[:1] == first[:1])
    driver.find_element(By.ID, "filter").send_keys("SLEEP")
    waiter(driver).until(lambda _: len(ids(driver)) == 1)
    seen["filtered"] = {"ids": ids(driver), "page": texts(driver, "#page-text")[0]}
    driver.find_element(By.ID, "filter").send_keys(" nothing")
    waiter(driver).until(lambda _: not ids(driver))
    seen["nothing"] = texts(driver, "#no-jobs")
    driver.find_element(By.ID, "filter").clear()
    driver.find_element(By.ID, "filter").send_keys(" ")
    waiter(driver).until(lambda _: len(ids(driver)) == 100)
    print("ready", flush=True)
    waiter(driver, 120).until(lambda _: "1 running, 0 waiting" in texts(driver, "#summary")[0])
    Select(driver.find_element(By.ID, "which")).select_by_visible_text("running and waiting")
    waiter(driver).until(lambda _: len(ids(driver)) == 1)
    seen["open"] = ids(driver)
    Select(driver.find_element(By.ID, "which")).select_by_visible_text("killed")
    waiter(driver).until(lambda _: texts(driver, "#page-text")[0].endswith(f" of {count}"))
    driver.find_element(By.XPATH, "//table[@id='jobs']//button[text()='ranks']").click()
    waiter(driver).until(lambda _: driver.execute_script(
        "return document.querySelector('#jobs th[aria-sort=ascending]').textContent") == "ranks")
    return seen


def bars(driver, job, lines):
    driver.get(driver.current_url + f"#{job}")
    waiter(driver, 120).until(lambda _: sum("done" in line for line in texts(driver, "#log div")) == int(lines))
    return {"log": texts(driver, "#log div")}


def ends(driver, job):
    driver.get(driver.current_url + f"#{job}")
    waiter(driver).until(lambda _: any("ended with exit code" in line for line in texts(driver, "#events li")))
    waiter(driver).until(lambda _: "failed" in texts(driver, "#job-title")[0])
    waiter(driver).until(lambda _: texts(driver, "#grid .cell.root"))
    titles = driver.execute_script("return [...document.querySelectorAll('#grid .cell')].map((e) => e.title)")
    times = driver.execute_script("return [...document.querySelectorAll('#events time')].map((e) => [e.dateTime, e.textContent])")
    return {"root": texts(driver, "#grid .cell.root"), "legend": texts(driver, "#rank-legend .entry"), "stopped": texts(driver, "#grid .cell.stopped"), "titles": titles,
            "times": times, "events": texts(driver, "#events li span")}


def kill(driver, job, token):
    driver.get(driver.current_url.split("#")[0] + f"#/job/{job}")
    waiter(driver).until(lambda _: driver.find_element(By.ID, "job-actions").is_displayed())

    def press(word):
        driver.find_element(By.XPATH, "//p[@id='job-actions']/button[text()='kill']").click()
        waiter(driver).until(expected_conditions.alert_is_present()).accept()
        waiter(driver).until(lambda _: driver.find_element(By.ID, "token-dialog").is_displayed())
        driver.find_element(By.ID, "token").send_keys(word)
        driver.find_element(By.CSS_SELECTOR, "#token-dialog button[value=ok]").click()
        waiter(driver).until(lambda _: texts(driver, "#job-action")[0] not in ("", "kill …"))
        return texts(driver, "#job-action")[0]

    seen = {"refused": press("not the token")}
    press(token)
    waiter(driver).until(lambda _: "killed" in texts(driver, "#job-title")[0])
    driver.get_log("browser")  # the refusal is an error to the browser
    return seen | {"title": texts(driver, "#job-title")[0]}


def scheme(driver, name):
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})


def access(driver, job):
    scheme(driver, "dark")
    waiter(driver).until(lambda _: job in ids(driver))
    focused = "return document.activeElement.textContent"
    for _ in range(20):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        if driver.execute_script(focused) == job:
            break
    age = f"return document.querySelector('#jobs tr[data-job=\"{job}\"]').cells[4].textContent"
    before = driver.execute_script(age)
    waiter(driver).until(lambda _: driver.execute_script(age) != before)  # the list was drawn anew
    seen = {"focused": driver.execute_script(focused), "contrasts": {}, "nameless": driver.execute_script(NAMELESS)}
    for measure in ("CPU", "health"):
        Select(driver.find_element(By.ID, "measure")).select_by_visible_text(measure)
        for name in ("dark", "light"):
            scheme(driver, name)
            seen["contrasts"][f"{name} {measure}"] = driver.execute_script(CONTRASTS)
    driver.find_element(By.LINK_TEXT, job).send_keys(Keys.ENTER)
    waiter(driver).until(lambda _: texts(driver, "#log .stderr .label"))
    waiter(driver).until(lambda _: texts(driver, "#gantt svg text"))
    ActionChains(driver).send_keys("s").perform()
    waiter(driver).until(lambda _: texts(driver, "#stacks summary"))
    ActionChains(driver).send_keys("rd" + Keys.HOME).perform()
    seen["detail"] = texts(driver, "#rank-detail")
    for name in ("dark", "light"):
        scheme(driver, name)
        driver.execute_script("delete document.documentElement.dataset.theme")
        seen["contrasts"][f"{name} job"] = driver.execute_script(CONTRASTS)
    driver.execute_script("document.documentElement.dataset.theme = 'dark'")
    seen["contrasts"]["dark by choice"] = driver.execute_script(CONTRASTS)
    seen["nameless"] += driver.execute_script(NAMELESS)
    ActionChains(driver).send_keys("?").perform()
    waiter(driver).until(lambda _: driver.find_element(By.ID, "help").is_displayed())
    seen["keys"] = texts(driver, "#help kbd")
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    waiter(driver).until(lambda _: driver.find_element(By.ID, "overview").is_displayed())
    return seen


def narrow(driver, job):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    wide = "return [document.documentElement.scrollWidth, innerWidth]"
    waiter(driver).until(lambda _: job in ids(driver))
    seen = {"overview": driver.execute_script(wide)}
    driver.get(driver.current_url.split("#")[0] + f"#/job/{job}")
    waiter(driver).until(lambda _: texts(driver, "#log div") and texts(driver, "#gantt svg text"))
    seen["job"] = driver.execute_script(wide)
    driver.get(driver.current_url.split("#")[0] + "#/host/n1")
    waiter(driver).until(lambda _: texts(driver, "#host-facts dt"))
    seen["host"] = driver.execute_script(wide)
    seen["facts"] = dict(zip(texts(driver, "#host-facts dt"), texts(driver, "#host-facts dd")))
    waiter(driver).until(lambda _: texts(driver, "#host-graphs figcaption"))
    seen["graphs"] = texts(driver, "#host-graphs figcaption")
    return seen


def many(driver, count):
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LONG_TASKS})
    begin = time.monotonic()
    driver.refresh()
    total = f"1–100 of {int(count):,}"
    waiter(driver).until(lambda _: texts(driver, "#page-text") == [total])
    seen = {"first_s": time.monotonic() - begin}
    begin = time.monotonic()
    driver.find_element(By.ID, "next").click()
    waiter(driver).until(lambda _: texts(driver, "#page-text")[0].startswith("101–200 of "))
    seen["next_s"] = time.monotonic() - begin
    for word, times in (("copy-7777", "filter_s"), (" copy-7777", "filter_again_s")):
        begin = time.monotonic()
        driver.find_element(By.ID, "filter").clear()
        driver.find_element(By.ID, "filter").send_keys(word)
        waiter(driver).until(lambda _: texts(driver, "#page-text") == ["1–1 of 1"])
        seen[times] = time.monotonic() - begin
    seen["long_tasks_ms"] = driver.execute_script("return longTasks")
    return seen


def live(driver, job):
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LONG_TASKS})
    driver.get(driver.current_url.split("#")[0] + f"?live#/job/{job}")
    waiter(driver).until(lambda _: len(texts(driver, "#log div")) >= 8)
    before = texts(driver, "#log div")
    driver.set_script_timeout(60)
    frames = driver.execute_async_script("""
        const done = arguments[0];
        const until = performance.now() + 5000;
        let frames = 0, longest = 0, last = performance.now();
        longTasks.length = 0;
        const frame = (now) => {
          longest = Math.max(longest, now - last);
          last = now;
          ++frames;
          if (now < until) requestAnimationFrame(frame); else done({ frames, longest_ms: Math.round(longest) });
        };
        requestAnimationFrame(frame);""")
    after = texts(driver, "#log div")
    return frames | {"lines": len(after), "moved": sum(a != b for a, b in zip(before, after)),
                     "long_tasks_ms": driver.execute_script("return longTasks")}


def log(driver, job):
    driver.get(driver.current_url.split("#")[0] + f"#/job/{job}")
    shown = "return [...document.querySelectorAll('#log div:not([hidden])')].map((e) => e.textContent)"
    lines = lambda: driver.execute_script(shown)  # noqa: E731
    waiter(driver).until(lambda _: len(lines()) == 12)
    seen = {"all": sorted(lines()), "red": sorted(texts(driver, "#log .fg1")), "bold": len(texts(driver, "#log .bold"))}
    Select(driver.find_element(By.ID, "stream")).select_by_visible_text("stderr")
    waiter(driver).until(lambda _: len(lines()) == 4)
    seen["stderr"] = sorted(lines())
    Select(driver.find_element(By.ID, "stream")).select_by_visible_text("both")
    driver.find_element(By.ID, "rank").send_keys("1-2")
    waiter(driver).until(lambda _: len(lines()) == 6)
    seen["download"] = driver.find_element(By.ID, "download").get_attribute("href")
    driver.find_element(By.ID, "rank").clear()
    driver.find_element(By.ID, "rank").send_keys("x")
    waiter(driver).until(lambda _: "0-3,7" in texts(driver, "#found")[0])
    driver.find_element(By.ID, "rank").clear()
    driver.find_element(By.ID, "rank").send_keys(" ")
    driver.find_element(By.ID, "regex").click()
    driver.find_element(By.ID, "search").send_keys("^Red [02]$")
    waiter(driver).until(lambda _: len(lines()) == 2)
    seen["marks"] = sorted(texts(driver, "#log div:not([hidden]) > mark"))
    driver.find_element(By.ID, "times").click()
    clock = r"return /^\d\d:\d\d:\d\d\.\d{3} /.test(document.querySelector('#log div:not([hidden])').textContent)"
    waiter(driver).until(lambda _: driver.execute_script(clock))
    driver.find_element(By.ID, "stacks-button").click()
    waiter(driver).until(lambda _: texts(driver, "#stacks summary"))
    seen["stacks"] = texts(driver, "#stacks summary")
    seen["state"] = texts(driver, "#stacks-state")
    return seen


def array(driver, job):
    def rows():
        return texts(driver, "#element-table tbody tr")

    driver.get(driver.current_url.split("#")[0] + f"#/job/{job}")
    waiter(driver).until(lambda _: rows())
    seen = {"counts": texts(driver, "#element-counts"), "first": rows()}
    seen["shown"] = [driver.find_element(By.ID, each).is_displayed() for each in ("element-table", "grid", "log")]
    driver.find_element(By.ID, "elements-after").click()
    waiter(driver).until(lambda _: rows() and rows()[0] != seen["first"][0])
    seen["second"] = rows()
    seen["before"] = driver.find_element(By.ID, "elements-before").is_enabled()
    driver.find_element(By.ID, "elements-before").click()
    waiter(driver).until(lambda _: rows()[:1] == seen["first"][:1])
    second = driver.find_element(By.CSS_SELECTOR, "#element-table tbody tr:nth-child(2) a")
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", second)  # not below the head of the page
    second.click()
    waiter(driver).until(lambda _: any(line.endswith("element 1") for line in texts(driver, "#log div")))
    seen["element"] = [texts(driver, "#job-title")[0], driver.find_element(By.ID, "element-table").is_displayed()]
    return seen


QUESTIONS = {each.__name__: each for each in (jobs, bars, ends, access, narrow, many, live, log, kill, array)}


def main():
    url, question, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            driver.get(url)
            waiter(driver).until(lambda _: texts(driver, "#map > div"))
            seen = QUESTIONS[question](driver, *words)
            errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        finally:
            driver.quit()
    print(json.dumps(seen | {"errors": errors}))


if __name__ == "__main__":
    main()
