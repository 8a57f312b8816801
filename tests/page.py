"""Looks at the page of a gateway with a browser, while the path of its tunnel is cut and the gateway stops.

usage: page.py FOLDER PID NAME

The gateway PID serves the page at 127.0.0.1:9464 of this network namespace, its tunnel is NAME, and FOLDER takes the
screenshots.
"""

import os
import signal
import subprocess
import sys
import time

from browser import Browser

FOLDER, GATEWAY, NAME = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ORIGIN = "http://127.0.0.1:9464/"
# What is promised, and how often it may be measured: a host that takes a core away for a while
# makes one late.
WITHIN_S, TRIES = 2, 4
ROW = "document.querySelector('#tunnels tbody tr')"
STATE = f"{ROW}.querySelector('.word').textContent"
SILENCE = "document.getElementById('silence')"
# A packet filter drops all that comes: no host is notified.
CUT = "add table inet cut; add chain inet cut in { type filter hook prerouting priority -400; }; add rule inet cut in iifname va drop"


# The elements that are wider than the screen.
WIDEST = """[...document.querySelectorAll("body *")].filter(it => it.getBoundingClientRect().right > %d)
  .map(it => `${it.tagName}.${it.className} ${it.textContent.slice(0, 60)}`).slice(0, 8).join("; ")"""


def nft(command):
    subprocess.run(["nft", command], check=True)


def measured(what, change, undo, is_shown, is_back, tries=TRIES):
    """Has something happen until the page shows it in time; reports how long it took."""
    times = []
    while not times or (times[-1] > WITHIN_S and len(times) < tries):
        change()
        times.append(browser.wait_until(what, is_shown))
        yield
        undo()
        browser.wait_until(f"the end of that {what}", is_back)
    print(f"{what}: on the page after {', '.join(f'{seconds:.2f} s' for seconds in times)}")
    assert times[-1] <= WITHIN_S, f"{what} is on the page later than {WITHIN_S} s, {tries} times in a row"


def a_tunnel_is_up():
    browser.call("Page.navigate", url=ORIGIN)
    browser.wait_until("the tunnel is up", f"{ROW} && {STATE}.includes('up')")
    browser.wait_until("a rate", f"{ROW}.cells[2].textContent.includes('bit/s')")
    browser.wait_until("a round trip", f"{ROW}.cells[5].textContent.includes(' ms')")
    browser.wait_until("a line of rates", f"{ROW}.querySelector('path').getAttribute('d').split('L').length > 4")
    browser.wait_until("an engine", "document.querySelector('#engines tbody').textContent.includes('µs')")
    browser.wait_until("a drop with its remedy", "document.querySelector('#drops tbody tr').cells[3].textContent.length > 20")
    assert browser.evaluate(f"{ROW}.querySelector('span').textContent") == NAME
    assert browser.evaluate("document.querySelectorAll('b, img').length") == 0, "a name became markup"
    assert not browser.faults(), browser.faults()
    text = browser.evaluate("document.getElementById('states').textContent")
    print(f"up, with rate, round trip, line, engine, drops; other states: {text or 'none'}")


def tunnels_are_selected():
    names = "[...document.querySelectorAll('#tunnels tbody th span:first-child')].map(name => name.textContent)"
    enter = "{ const box = document.getElementById('%s'); box.value = '%s'; box.dispatchEvent(new Event('%s')); }"
    browser.evaluate(enter % ("filter", "no such tunnel", "input"))
    browser.wait_until("no tunnel is selected", f"{names}.length === 0")
    browser.evaluate(enter % ("filter", NAME[:4].upper(), "input"))
    browser.wait_until("the tunnel is selected", f"{names}.length === 1")
    browser.evaluate(enter % ("state", "not-up", "change"))
    browser.wait_until("no tunnel is not up", f"{names}.length === 0")
    browser.evaluate(enter % ("state", "all", "change"))
    browser.evaluate(enter % ("filter", "", "input"))
    browser.wait_until("all tunnels are there", f"{names}.length === 1")
    print("selected by name and by state")


def screenshots():
    for width, height, is_phone, is_dark in (1280, 800, False, False), (1280, 800, False, True), (360, 740, True, False), (360, 740, True, True):
        browser.size(width, height, is_phone)
        browser.is_dark(is_dark)
        time.sleep(0.5)
        browser.screenshot(f"{FOLDER}/page-{width}-{'dark' if is_dark else 'light'}.png")
        # A busy machine lays the page out later.
        for _ in range(100):
            wide = browser.evaluate("document.documentElement.scrollWidth")
            if wide <= width:
                break
            time.sleep(0.1)
        assert wide <= width, f"the page is {wide} pixels wide on a screen of {width}: {browser.evaluate(WIDEST % width)}"
    browser.size(1280, 800)
    browser.is_dark(False)
    print("screenshots at 1280 and 360 pixels, light and dark; nothing is wider than the screen")


def a_path_is_cut():
    # The tunnel's monitor needs its time as well.
    cut = measured("a cut path", lambda: nft(CUT), lambda: nft("delete table inet cut"),
                   f"{STATE}.includes('silent')", f"{STATE}.includes('up')", tries=2 * TRIES)
    for _ in cut:
        why = browser.evaluate(f"{ROW}.querySelectorAll('.second')[1].textContent")
        assert why.startswith("since ") and "are not answered" in why, why
        browser.screenshot(f"{FOLDER}/page-cut.png")
    print(f"  with since when and why: {why}")


def a_gateway_hangs():
    stop = measured("a gateway that hangs", lambda: os.kill(GATEWAY, signal.SIGSTOP), lambda: os.kill(GATEWAY, signal.SIGCONT),
                    f"!{SILENCE}.hidden", f"{SILENCE}.hidden && {STATE}.includes('up')")
    for _ in stop:
        said = browser.evaluate(f"{SILENCE}.textContent")
        assert "No answer since " in said, said
        assert browser.evaluate(f"{ROW}.querySelector('span').textContent") == NAME, "the last state is gone"
        browser.screenshot(f"{FOLDER}/page-silent.png")
    print(f"  over its last state: {said}")


def a_gateway_ends():
    os.kill(GATEWAY, signal.SIGTERM)
    began = time.monotonic()
    browser.wait_until("no answer", f"!{SILENCE}.hidden && {SILENCE}.textContent.includes('cannot be reached')")
    print(f"a gateway that ends: on the page after {time.monotonic() - began:.2f} s, of which it drains")


def nothing_leaves():
    requests = browser.requests()
    foreign = [url for url in requests if not url.startswith(ORIGIN) and not url.startswith("data:") and url != "about:blank"]
    assert not foreign, f"the page asked other places: {foreign}"
    paths = {url.removeprefix(ORIGIN).split("?")[0] for url in requests if url.startswith(ORIGIN)}
    assert paths == {"", "status.json"}, paths
    assert not browser.faults(), browser.faults()
    print(f"requests went to {ORIGIN} alone: / and /status.json; no exception, nothing blocked")


browser = Browser(FOLDER)
failures = 0
for check in (a_tunnel_is_up, tunnels_are_selected, screenshots, a_path_is_cut, a_gateway_hangs, a_gateway_ends, nothing_leaves):
    try:
        check()
    except (AssertionError, OSError) as error:
        failures += 1
        print(f"FAILED: {check.__name__}: {error}")
browser.end()
sys.exit(failures > 0)
