#!/usr/bin/env python3
"""Every page that --report writes, in a real browser: pages_test.py [--shots FOLDER] PROGRAM SOURCE.

At 390, 1,000 and 1,600 pixels, dark and light: nothing in the console, no request but the file itself, every section there, nothing
wider than the window; then what moves: zoom, hover, keyboard, links. --shots writes a picture of each, for people.
"""

import base64
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser as browsers  # noqa: E402
import serve_test as serving  # noqa: E402

JOB = "--model llama-3.1-8b --cluster dgx-h100x2 --seq 4096 --global-batch 32"
SOURCES = "Where the numbers come from"
# What writes each page, and sections that it must have.
PAGES = {
    "estimate": (f"estimate {JOB} --layout tp2.pp2.fsdp4.mb1", ["Exposed time of a step", "From the GPU's peak", "Memory at its peak", SOURCES]),
    "plan": (f"plan {JOB}", ["Step time and memory", "The best layouts", "Where the time goes", "Memory at its peak", SOURCES]),
    "simulate": (f"simulate {JOB} --layout tp2.pp2.fsdp4.mb1 --straggler 1.3x@rank3",
                 ["The step", "Exposed time of a step", "Communication by stream", "Ranks", "The cluster's nodes", "Busiest links",
                  "Memory over the step", "Memory at its peak", "What was asked", SOURCES]),
    "large": ("simulate --model llama-3.1-405b --cluster dgx-h100x2048 --seq 8192 --global-batch 2048 --layout tp8.pp16.fsdp128.mb1",
              ["The step", "Ranks", "Memory over the step", SOURCES]),
    "whatif": (f"whatif {JOB} --vary nic_bandwidth=0.1x,0.5x,1x,2x --scaling 8,16,32 --break-even memory=0.8x,1.2x --faster 5% --price 2.5",
               ["Step over nic_bandwidth", "The cases", "Prices", "Strong scaling", "Weak scaling", "For a step 5 % shorter", "Elasticities", SOURCES]),
    "budget": ("budget --model llama-3.1-8b --seq 4096 --tokens 100B --offer dgx-h100x2..8=2.5 --offer hgx-h200x4=3.4",
               ["Dollars", "Days", "dgx-h100x2..8: days over GPUs", "The offers", "What was asked", SOURCES]),
    "check": ("check train_llama3_8b.sh --cluster dgx-h100x2", ["No rule is broken", "Time and memory to expect", SOURCES]),
    "topo": ("topo show --cluster dgx-h100x64 --group 64,8", ["One node, ranks coloured by group", "The network", "Bandwidth between two GPUs", "What limits a ring", SOURCES]),
    "compare": ("compare sound.json slow.json", ["Where the step goes", "Each kind of op", "The kinds of ops that differ most", SOURCES]),
}
TRACES = [f"simulate {JOB} --layout tp2.pp2.fsdp4.mb1 --trace sound.json",
          f"simulate {JOB} --layout tp2.pp2.fsdp4.mb1 --straggler 1.3x@rank3 --trace slow.json"]
MOST_BYTES = 3 << 20

faults = []


def expect(true, text):
    if not true:
        faults.append(text)


def write_pages(program, source, folder):
    subprocess.run(["cp", "-r", os.path.join(source, "tests/docs/files") + "/.", folder], check=True)
    commands = TRACES + [f"{words} --report {name}.html" for name, (words, _) in PAGES.items()]
    for words in commands:
        done = subprocess.run([program, *words.split()], cwd=folder, capture_output=True, text=True, check=False)
        expect(done.returncode in (0, 1), f"{words}: {done.stderr}")


def look_at(page, name, address, shots):
    for width in (390, 1000, 1600):
        for dark in (False, True):
            what = f"{name} at {width} px, {'dark' if dark else 'light'}"
            page.look(width, dark)
            page.open(address)
            expect(not page.errors, f"{what}: the console says {page.errors}")
            expect({url for url in page.requests if not url.startswith("data:")} == {address}, f"{what}: it asks for {page.requests}")
            wide = page.ask("document.documentElement.scrollWidth")
            expect(wide <= width, f"{what}: {wide} px wide")
            paper, ink = page.ask("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
            expect((paper == "rgb(255, 255, 255)") != dark and paper != ink, f"{what}: {ink} on {paper}")
            if shots:
                picture = page.send("Page.captureScreenshot", captureBeyondViewport=True, format="png")["data"]
                with open(os.path.join(shots, f"{name}-{width}-{'dark' if dark else 'light'}.png"), "wb") as file:
                    file.write(base64.b64decode(picture))


def sections(page, name, wanted):
    there = page.ask("[...document.querySelectorAll('h2')].map(h => h.textContent)")
    for section in wanted:
        expect(any(text.startswith(section) for text in there), f"{name}: no section '{section}' among {there}")
    nameless = page.ask("[...document.querySelectorAll('svg, canvas, button')].filter(e => !e.getAttribute('aria-label') && !e.textContent).length")
    expect(nameless == 0, f"{name}: {nameless} drawings without a name")


def window_of(page):
    return page.ask("[+document.querySelector('.timeline').dataset.from, +document.querySelector('.timeline').dataset.to]")


def timeline_moves(page, name):
    box = page.ask("(() => { const c = document.querySelector('canvas'); c.scrollIntoView(); c.focus();"
                   " const b = c.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
    expect(window_of(page) == [0, 1], f"{name}: begins at {window_of(page)}")
    page.key("+")
    low, high = window_of(page)
    expect(abs(high - low - 1 / 1.6) < 1e-6, f"{name}: + shows {low} to {high}")
    page.key("ArrowRight")
    expect(window_of(page)[0] > low, f"{name}: the right arrow does not move")
    page.key("0")
    expect(window_of(page) == [0, 1], f"{name}: 0 does not show the whole step")
    said = "document.querySelector('.said').textContent"
    page.key(".")
    first = page.ask(said)
    page.key(".")
    expect("micro-batch 0" in first and page.ask(said) not in ("", first), f"{name}: '.' says '{first}', then '{page.ask(said)}'")
    page.key("ArrowDown")
    expect("exposed" in page.ask(said), f"{name}: below the first stream is '{page.ask(said)}'")
    page.key("Escape")
    expect(page.ask(said) == "", f"{name}: Escape leaves '{page.ask(said)}'")
    x, y = box[0] + 0.5 * box[2], box[1]
    tip = "document.querySelector('.tip').hidden ? '' : document.querySelector('.tip').textContent"
    seen = ""
    for down in range(40, 120, 4):
        page.mouse("mouseMoved", x, y + down)
        seen = seen or page.ask(tip)
    expect("stage 0" in seen, f"{name}: hovering shows '{seen}'")
    page.mouse("mouseWheel", x, y + 50, deltaX=0, deltaY=-300, modifiers=2)
    low, high = window_of(page)
    expect(high - low < 0.5, f"{name}: the wheel shows {low} to {high}")
    page.ask("document.querySelector('button[value=\"0\"]').click()")
    expect(window_of(page) == [0, 1], f"{name}: the button does not show the whole step")
    slow = page.ask("JSON.parse(document.querySelector('.timeline script').textContent).ranks.filter(r => r.slow).map(r => r.name)")
    expect(slow == ["stage 0, rank 3: slow"], f"{name}: the slow ranks are {slow}")


def points_lead_somewhere(page, name):
    titles = page.ask("[...document.querySelectorAll('svg circle')].map(c => c.querySelector('title').textContent)")
    expect(len(titles) > 3 and all(titles), f"{name}: points say {titles}")
    lost = page.ask("[...document.querySelectorAll('svg a')].filter(a => !document.querySelector(a.getAttribute('href'))).length")
    expect(lost == 0, f"{name}: {lost} points lead nowhere")
    page.ask("document.querySelector('svg a circle').parentElement.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))")
    expect(page.ask("document.querySelectorAll(':target').length") == 1, f"{name}: a click on a point leads nowhere")


def served_page(page, program, shots):
    """The page of serve: sliders by keyboard, each answered; nothing but its own address is asked."""
    served = serving.Served(program)
    try:
        for width in (390, 1000, 1600):
            for dark in (False, True):
                page.look(width, dark)
                page.open(served.address)
                wide = page.ask("document.documentElement.scrollWidth")
                expect(wide <= width and not page.errors, f"serve at {width} px: {wide} px wide, {page.errors}")
                if shots:
                    picture = page.send("Page.captureScreenshot", captureBeyondViewport=True, format="png")["data"]
                    with open(os.path.join(shots, f"serve-{width}-{'dark' if dark else 'light'}.png"), "wb") as file:
                        file.write(base64.b64decode(picture))
        took, before = [], page.ask("document.getElementById('answer').textContent")
        for slider in ("seq", "batch", "gpus", "nic", "nvlink"):
            for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
                page.ask(f"document.getElementById('{slider}').focus()")
                count = page.ask("Number(document.getElementById('answer').dataset.answers || 0)")
                page.key(key)
                took.append(page.ask("new Promise(done => { const look = () => { const d = document.getElementById('answer').dataset;"
                                     f" if (Number(d.answers || 0) > {count}) done(+d.milliseconds); else setTimeout(look, 5); }}; look(); }})"))
        after = page.ask("document.getElementById('answer').textContent")
        expect("best layout" in after and after != before, f"serve: moving the sliders shows '{after[:100]}'")
        expect(all(url.startswith((served.address, "data:")) for url in page.requests), f"serve: it asks for {page.requests}")
        expect(not page.errors, f"serve: the console says {page.errors}")
        print(f"serve: {len(took)} moves of sliders, the longest answered in {max(took):.0f} ms")
    finally:
        expect(served.end() == 0, "serve: SIGINT does not end it with 0")


def checker_sees(page, folder):
    """What must be found is found: an error in the console and a request that leaves."""
    path = os.path.join(folder, "bad.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write("<body><img src='http://127.0.0.1:9/x.png'><script>console.error('oh'); nothing.there</script>")
    page.open("file://" + path)
    expect(len(page.errors) >= 2 and any("127.0.0.1" in url for url in page.requests), f"the test is blind: {page.errors}, {page.requests}")


def main():
    words = sys.argv[1:]
    shots = os.path.abspath(words[words.index("--shots") + 1]) if "--shots" in words else None
    program, source = [os.path.abspath(word) for word in words[-2:]]
    chromium = browsers.find()
    if not chromium:
        print("skipped: there is no Chromium on this machine")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        write_pages(program, source, folder)
        page = browsers.Browser(chromium, os.path.join(folder, "browser"))
        try:
            checker_sees(page, folder)
            for name, (_, wanted) in PAGES.items():
                path = os.path.join(folder, name + ".html")
                size = os.path.getsize(path)
                expect(size < MOST_BYTES, f"{name}: {size} bytes")
                look_at(page, name, "file://" + path, shots)
                sections(page, name, wanted)
                page.look(1000, False)
                page.open("file://" + path)
                loaded = page.ask("performance.getEntriesByType('navigation')[0].loadEventEnd")
                if name == "simulate":
                    timeline_moves(page, name)
                if name == "plan":
                    points_lead_somewhere(page, name)
                print(f"{name}: {size / 1024:.0f} KiB, loaded in {loaded:.0f} ms")
            served_page(page, program, shots)
        finally:
            page.close()
    for fault in faults:
        print(fault)
    print(f"{len(PAGES)} pages at 3 widths, dark and light, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
