// The entry: what pages can do with scripts. Without them everything but uploads works.

import { beginList, goOnCounting, pressInList } from "./list.js";
import { beginLive } from "./live.js";
import { pressSlides } from "./slides.js";
import { addFiles, filesOf, isUploading, pressUploads } from "./upload.js";

// The address of the page that is shown.
let shown = withoutHash(location.href);
// Whether the page is the answer to a form, which has no address of its own.
let isAnswer = false;
// The pages that were asked for: a response that another one has overtaken is not shown.
let turns = 0;

document.documentElement.classList.add("scripts");
enhance();
beginLive();

document.addEventListener("dragover", (event) => {
  if (folder() === null) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dropping");
});
document.addEventListener("drop", async (event) => {
  document.body.classList.remove("dropping");
  const into = folder();
  if (into === null) return;
  event.preventDefault();
  addFiles(into, await filesOf(event.dataTransfer));
});

// While files are uploaded, pages are exchanged without leaving the document, which would end the uploads.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!isUploading() || !isPlain || link === null || link.download !== "" || link.hasAttribute("download")) return;
  if (link.origin !== location.origin || !link.pathname.startsWith(document.documentElement.dataset.root)) return;
  if (link.hash !== "" && withoutHash(link.href) === shown) return;
  event.preventDefault();
  show(link.href);
});
document.addEventListener("submit", (event) => {
  if (!isUploading()) return;
  const form = event.target;
  if (form.dataset.download !== undefined) {
    form.setAttribute("target", "_blank");
    return;
  }
  event.preventDefault();
  const fields = new URLSearchParams(new FormData(form, event.submitter));
  // The property formAction of a button without the attribute is the address of the page.
  const action = event.submitter?.getAttribute("formaction") ?? form.getAttribute("action");
  // The property is the field of a form that has one of this name.
  if (form.getAttribute("method") === "post") show(action, fields);
  else show(`${action}?${fields}`);
});
// A way within the page, such as that to its content, changes the hash alone.
addEventListener("popstate", () => {
  if (isAnswer || withoutHash(location.href) !== shown) show(location.href, null, false);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copies]");
  if (button !== null) copy(button);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-saves]");
  if (button !== null) saveEnvironment(button);
});
// The keys of the pages, as the dialog of "?" names them.
document.addEventListener("keydown", (event) => {
  const isEntry = event.target.closest("input:not([type=checkbox]), textarea, select, summary, audio, video, [tabindex='0']") !== null;
  if (isEntry || event.ctrlKey || event.metaKey || event.altKey) return;
  const beside = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (beside !== undefined) document.querySelector(`a[rel=${beside}][data-beside]`)?.click();
  if (document.documentElement.dataset.keys === "off") return;
  if (event.key === "/") {
    const field = document.querySelector("input[type=search]");
    if (field === null) return;
    event.preventDefault();
    field.focus();
  }
  if (event.key === "?") document.getElementById("keys")?.togglePopover();
  if (event.key === "u") document.querySelector(".crumbs a:last-of-type")?.click();
  pressInList(event.key);
});
// Menus are closed by a click elsewhere, and by the key Escape.
document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = event.target.closest("details.menu[open]");
  closeMenus(null);
  open?.querySelector("summary").focus();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-uploads]");
  if (button !== null) pressUploads(button.dataset.uploads);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-slides]");
  if (button !== null) pressSlides(button.dataset.slides);
});
addEventListener("beforeunload", (event) => {
  if (isUploading()) event.preventDefault();
});
document.addEventListener("uploaded", (event) => {
  const into = isAnswer ? null : folder();
  if (into?.bucket === event.detail.bucket && into.prefix === event.detail.prefix) show(location.href, null, false);
});

function closeMenus(but) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== but) menu.open = false;
}

function withoutHash(address) {
  return address.split("#")[0];
}

// The folder that the page shows, where files can be put; null on other pages.
function folder() {
  const panel = document.getElementById("upload");
  return panel === null ? null : { bucket: panel.dataset.bucket, prefix: decodeURIComponent(panel.dataset.at) };
}

async function show(address, fields = null, isNew = true) {
  const turn = (turns += 1);
  let response;
  let text;
  try {
    response = await fetch(address, fields === null ? {} : { method: "POST", body: fields });
    text = await response.text();
  } catch {
    return tell("The server cannot be reached.");
  }
  // Another page was asked for in the meantime.
  if (turn !== turns) return;
  const page = new DOMParser().parseFromString(text, "text/html");
  document.title = page.title;
  const keys = page.documentElement.dataset.keys;
  if (keys === undefined) delete document.documentElement.dataset.keys;
  else document.documentElement.dataset.keys = keys;
  for (const part of ["header", "main"]) document.querySelector(part).replaceWith(page.querySelector(part));
  isAnswer = fields !== null && !response.redirected;
  // The address of the form is none that a reload could ask for.
  if (isNew) history.pushState(null, "", isAnswer ? location.href : response.url);
  shown = withoutHash(location.href);
  enhance();
  if (isNew) document.getElementById("main").focus();
  const onward = document.querySelector("a[data-onward]");
  if (onward !== null) await show(onward.href);
}

// Says what went wrong on the page that stays, with all that was entered.
function tell(message) {
  const told = document.createElement("p");
  told.className = "error";
  told.setAttribute("role", "alert");
  told.textContent = message;
  const main = document.getElementById("main");
  main.querySelector(":scope > [role=alert]")?.remove();
  main.prepend(told);
  told.scrollIntoView({ block: "center" });
}

// Adds what needs scripts to a page.
function enhance() {
  for (const shown of document.querySelectorAll("[data-copy]")) addCopyButton(shown);
  beginList();
  goOnCounting().catch(() => {});
  // A long change comes in steps; without scripts a button leads on.
  document.querySelector("form[data-continue]")?.requestSubmit();
  const panel = document.getElementById("upload");
  if (panel === null) return;
  panel.hidden = false;
  for (const input of panel.querySelectorAll("input")) {
    input.addEventListener("change", () => {
      const files = Array.from(input.files, (file) => ({ file, path: file.webkitRelativePath || file.name }));
      addFiles(folder(), files);
      input.value = "";
    });
  }
}

// Copies what a button has in store.
async function copy(button) {
  const text = button.dataset.copies;
  // A button that sends its form leads to a page which shows the text.
  if (button.type === "submit") {
    navigator.clipboard?.writeText(text).catch(() => {});
    return;
  }
  // Over plain HTTP from another host there is no clipboard: the text is shown, selected.
  if (navigator.clipboard === undefined) {
    const field = document.createElement("input");
    field.readOnly = true;
    field.value = text;
    field.setAttribute("aria-label", button.textContent);
    button.replaceWith(field);
    field.select();
    return;
  }
  await navigator.clipboard.writeText(text);
  button.lastChild.textContent = "Copied";
}

// Saves lines for a shell as a file of variables, which Docker reads without "export". The file is made of the page, so that no request
// and no address has the secret key.
function saveEnvironment(button) {
  const lines = document.getElementById(button.dataset.saves).textContent.replaceAll(/^export /gm, "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines, "\n"], { type: "text/plain" }));
  link.download = button.dataset.name;
  link.click();
  // The browser has it once it has begun to save.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function addCopyButton(shown) {
  const button = document.createElement("button");
  button.type = "button";
  const what = document.createElement("span");
  what.className = "hidden";
  what.textContent = ` ${shown.dataset.copy}`;
  button.append("Copy", what);
  button.addEventListener("click", async () => {
    // Over plain HTTP from another host there is no clipboard: the text is selected instead.
    if (navigator.clipboard === undefined) return getSelection().selectAllChildren(shown);
    await navigator.clipboard.writeText(shown.value ?? shown.textContent);
    button.firstChild.textContent = "Copied";
  });
  shown.after(button);
}
