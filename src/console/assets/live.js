// Pages that show what happens now: a part of them is asked for again every two seconds, until somebody stops it.

import { tellTimes } from "./list.js";

const EVERY_MILLIS = 2_000;

export function beginLive() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-live]");
    if (button !== null) button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
  });
  setInterval(refresh, EVERY_MILLIS);
}

let isAsking = false;

async function refresh() {
  const button = document.querySelector("[data-live][aria-pressed=true]");
  // Nobody looks, or somebody copies what is there.
  if (button === null || isAsking || document.visibilityState !== "visible" || !getSelection().isCollapsed) return;
  isAsking = true;
  try {
    const response = await fetch(location.href, { headers: { "X-Console-Refresh": "1" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const live = page.getElementById("live");
    // Another page is shown meanwhile, or it was stopped.
    if (!button.isConnected || button.getAttribute("aria-pressed") !== "true") return;
    // The session has ended.
    if (live === null) button.setAttribute("aria-pressed", "false");
    else {
      const isOpen = document.getElementById("busiest")?.open ?? false;
      document.getElementById("live").replaceWith(live);
      const busiest = document.getElementById("busiest");
      if (busiest !== null) busiest.open = isOpen;
      tellTimes(live);
    }
  } catch {
    // The server is restarted: the next time.
  } finally {
    isAsking = false;
  }
}
