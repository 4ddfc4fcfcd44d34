// The main part is fetched again and again, while nobody reads in it. Without scripts there
// is a link that does the same.
const main = document.getElementById("main"), pause = document.getElementById("pause");
const say = (text) => { document.getElementById("freshness").textContent = text; };
const live = () => document.getElementById("live");
let paused = false, every = Number(main.dataset.refresh);

// Who has the pointer or the focus on a table, or has marked a text, reads it.
const read = () => live().querySelector(".wide:hover, :focus-visible") !== null ||
  !getSelection().isCollapsed && live().contains(getSelection().anchorNode);

// Who comes to a command by keys has marked it.
document.addEventListener("focusin", (event) => {
  if (event.target.matches(".command")) getSelection().selectAllChildren(event.target);
});

const refresh = async () => {
  if (!paused && !document.hidden && read()) {
    say("Waits while you read.");
  } else if (!paused && !document.hidden) {
    try {
      const reply = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(10000)});
      if (!reply.ok) throw new Error(reply.status);
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      for (const details of live().querySelectorAll("details[id]")) page.getElementById(details.id)?.toggleAttribute("open", details.open);
      const scrolled = [...live().querySelectorAll(".wide")].map((e) => e.scrollLeft);
      for (const id of ["live", "notice"]) {
        const found = page.getElementById(id), shown = document.getElementById(id);
        if (found.innerHTML !== shown.innerHTML) shown.replaceChildren(...found.childNodes);
      }
      live().querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = scrolled[i] ?? 0; });
      every = Number(page.getElementById("main").dataset.refresh);
      say("");
    } catch {
      say("Cannot be refreshed. What you see is older.");
      for (const status of live().querySelectorAll(".status")) { // what was well may not be now
        status.textContent = "? Not known now";
        status.className = "status warn";
      }
    }
  }
  if (every) setTimeout(refresh, every);
};

if (every && live()) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    say(paused ? "Paused." : "");
  });
  setTimeout(refresh, every);
}
