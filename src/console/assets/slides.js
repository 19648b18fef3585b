// The slide show: the pictures of a folder one after another, from that of the page on.

const SHOWN_MILLIS = 5_000;
// Objects without a picture are passed over, so many in a row.
const PASSED_MAX = 100;

// The page of the shown picture and its address; null while no slide show runs.
let slide = null;
// Shows the next picture; null while the show rests.
let timer = null;

export function pressSlides(what) {
  if (what === "start") start();
  if (what === "pause") run(timer === null);
  if (what === "close") dialog().close();
  if (what === "prev" || what === "next") step(what);
}

function dialog() {
  return document.getElementById("slides");
}

function start() {
  slide = { page: document, address: location.href };
  dialog().addEventListener("close", leave, { once: true });
  dialog().addEventListener("keydown", press);
  dialog().querySelector("img").addEventListener("load", goOn);
  dialog().showModal();
  // Nothing moves by itself for people who do not want it; they press the arrows.
  run(!matchMedia("(prefers-reduced-motion: reduce)").matches);
  show();
}

// The keys of the page below mean something else.
function press(event) {
  event.stopPropagation();
  const side = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (side !== undefined) step(side);
  if (event.key === " " && event.target.closest("button") === null) {
    event.preventDefault();
    run(timer === null);
  }
}

function run(isOn) {
  clearTimeout(timer);
  timer = isOn ? setTimeout(step, SHOWN_MILLIS, "next") : null;
  const button = dialog()?.querySelector("[data-slides=pause]");
  if (button) button.textContent = isOn ? "Pause" : "Play";
}

// A picture is shown for its time from when it is there.
function goOn() {
  if (timer !== null) run(true);
}

function show() {
  const image = slide.page.querySelector("img.preview");
  const shown = dialog().querySelector("img");
  shown.alt = image.alt;
  shown.src = image.getAttribute("src");
  tell(slide.page.querySelector("h1").textContent);
}

function tell(text) {
  dialog().querySelector("[role=status]").textContent = text;
}

async function step(side) {
  const from = slide;
  let { page } = from;
  try {
    for (let passed = 0; passed < PASSED_MAX; passed += 1) {
      const link = page.querySelector(`a[rel=${side}][data-beside]`);
      if (link === null) break;
      const address = new URL(link.getAttribute("href"), location.href).href;
      const response = await fetch(address);
      page = new DOMParser().parseFromString(await response.text(), "text/html");
      // The show has ended, or another step was faster.
      if (slide !== from) return;
      if (page.querySelector("img.preview") === null) continue;
      slide = { page, address };
      show();
      goOn();
      return;
    }
    tell(side === "next" ? "This is the last picture" : "This is the first picture");
  } catch {
    tell("The server cannot be reached.");
  }
  run(false);
}

// The page of the picture that was shown last, by a link, so that uploads go on.
function leave() {
  run(false);
  const { address } = slide;
  slide = null;
  if (address === location.href) return;
  const link = document.createElement("a");
  link.href = address;
  document.getElementById("main").append(link);
  link.click();
}
