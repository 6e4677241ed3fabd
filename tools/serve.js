// The sliders of `trireme serve`: one question at a time, always for where they stand last. How long the last answer
// took stands in the answer's data-milliseconds, and how many there were in data-answers.
"use strict";
(() => {
  const sliders = [...document.querySelectorAll("input[type=range]")];
  const answer = document.getElementById("answer"), state = document.getElementById("state");
  const value = slider => slider.dataset.values.split(" ")[slider.value];
  let asking = false, again = false;

  function show() {
    for (const slider of sliders) {
      const text = value(slider);
      document.querySelector(`output[for=${slider.id}]`).textContent = text;
      slider.setAttribute("aria-valuetext", text);
    }
  }

  async function ask() {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    const begin = performance.now();
    try {
      const reply = await fetch("/answer?" + sliders.map(slider => slider.id + "=" + value(slider)).join("&"));
      const text = await reply.text();
      if (reply.ok) answer.innerHTML = text; else answer.textContent = text;
      const took = performance.now() - begin;
      answer.dataset.milliseconds = took.toFixed(1);
      answer.dataset.answers = Number(answer.dataset.answers || 0) + 1;
      state.textContent = `answered by the planner in ${took.toFixed(0)} ms`;
    } catch (error) {
      state.textContent = "trireme serve does not answer; was it ended?";
    }
    asking = false;
    if (again) {
      again = false;
      ask();
    }
  }

  for (const slider of sliders) slider.addEventListener("input", () => { show(); ask(); });
  document.querySelector("form").addEventListener("submit", event => event.preventDefault());
  show();
})();
