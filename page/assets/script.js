// The main part is fetched again and again, while nobody reads in it. Without scripts
// there is a link that does the same.
const main = document.getElementById("main");
const pause = document.getElementById("pause");
const every = Number(main.dataset.refresh);

if (every && pause) {
  const freshness = document.getElementById("freshness");
  const again = document.getElementById("again");
  const live = () => document.getElementById("live");
  let paused = false, under = false, over = false; // over: what is shown will not change

  // Who has the pointer or the focus on a table, or has marked a text, reads it.
  const read = () => live().querySelector(".wide:hover, :focus-visible, .whole[open]") !== null ||
    !getSelection().isCollapsed && live().contains(getSelection().anchorNode);
  const say = (text) => { if (freshness.textContent !== text) freshness.textContent = text; };

  const replace = (page) => {
    const found = page.getElementById("live");
    if (!found) throw new Error("the page has changed");
    for (const details of live().querySelectorAll("details[id]")) {
      const same = found.querySelector("#" + CSS.escape(details.id));
      if (same) same.open = details.open;
    }
    const scrolled = [...live().querySelectorAll(".wide")].map((e) => e.scrollLeft);
    live().replaceWith(document.adoptNode(found));
    [...live().querySelectorAll(".wide")].forEach((e, i) => { e.scrollLeft = scrolled[i] ?? 0; });
    const notice = page.getElementById("notice"), shown = document.getElementById("notice");
    // The age changes all the time, and is not worth saying aloud.
    if (Boolean(notice.textContent) !== Boolean(shown.textContent)) shown.replaceChildren(...notice.childNodes);
    else if (notice.innerHTML !== shown.innerHTML) quietly(shown, notice);
  };
  const quietly = (shown, notice) => {
    shown.setAttribute("aria-live", "off");
    shown.replaceChildren(...notice.childNodes);
    setTimeout(() => shown.removeAttribute("aria-live"), 100);
  };

  const refresh = async (asked) => {
    if (under || !asked && (paused || over || document.hidden)) return;
    if (!asked && read()) return say("Waits while you read.");
    under = true;
    try {
      const reply = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(10000)});
      const text = await reply.text();
      if (!reply.ok) throw new Error(reply.status);
      if (!asked && (paused || read())) return;
      const page = new DOMParser().parseFromString(text, "text/html");
      replace(page);
      over = !page.getElementById("main").dataset.refresh;
      say(over ? "" : paused ? "Paused." : "Refreshed every " + every / 1000 + " s.");
    } catch (error) {
      say("Cannot be refreshed. What you see is older.");
      for (const status of live().querySelectorAll(".status")) { // what was well may not be now
        status.textContent = "? Not known now";
        status.className = "status warn";
      }
    } finally {
      under = false;
    }
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    say(paused ? "Paused." : "");
    if (!paused) refresh(true);
  });
  again.addEventListener("click", (event) => { event.preventDefault(); refresh(true); });
  say("Refreshed every " + every / 1000 + " s.");
  setInterval(() => refresh(false), every);
}
