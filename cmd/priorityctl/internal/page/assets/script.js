// The live part is fetched again and again, except while someone reads it. Without scripts
// a link does the same.
const main = document.getElementById("main"), pause = document.getElementById("pause"), live = document.getElementById("live");
const say = (text) => { document.getElementById("freshness").textContent = text; };
const every = Number(main.dataset.refresh);
let paused = false;

// Someone reads: the pointer or the focus is on a table or a chart, or text is selected.
const reading = () => live.querySelector(".wide:hover, .drawing:hover, :focus-visible") !== null ||
  !getSelection().isCollapsed && live.contains(getSelection().anchorNode);

// Focus selects a command, to copy it.
document.addEventListener("focusin", (event) => {
  if (event.target.matches(".command")) getSelection().selectAllChildren(event.target);
});

const refresh = async () => {
  if (!paused && !document.hidden && reading()) {
    say("Waits while you read.");
  } else if (!paused && !document.hidden) {
    try {
      const reply = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(10000)});
      if (!reply.ok) throw new Error(reply.status);
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      for (const details of live.querySelectorAll("details[id]")) page.getElementById(details.id)?.toggleAttribute("open", details.open);
      const scrolled = [...live.querySelectorAll(".wide")].map((e) => e.scrollLeft);
      for (const shown of [live, document.getElementById("notice")]) {
        const found = page.getElementById(shown.id);
        if (found.innerHTML !== shown.innerHTML) shown.replaceChildren(...found.childNodes);
      }
      live.querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = scrolled[i] ?? 0; });
      say("");
    } catch {
      say("Cannot be refreshed. What you see is older.");
      live.querySelector(".status")?.remove(); // what was well may not be now
    }
  }
  setTimeout(refresh, every);
};

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  say(paused ? "Paused." : "");
});
setTimeout(refresh, every);
