// Measures each page in a frame of each width; `pages` and `widths` are set before.

function describe(element) {
  return element.tagName.toLowerCase() + (element.id ? "#" + element.id : "");
}

// Whether the element scrolls by itself inside of a box that fits.
function scrolls(element) {
  const box = element.closest(".scroll");
  return box !== null && box !== element && getComputedStyle(box).overflowX === "auto";
}

// Pixels of letters on the screen: plots are scaled.
function letters(text) {
  const matrix = text.getScreenCTM ? text.getScreenCTM() : { a: 1 };
  return parseFloat(text.ownerDocument.defaultView.getComputedStyle(text).fontSize) * matrix.a;
}

function least(elements) {
  return Math.round(100 * Math.min(1000, ...elements.map(letters))) / 100;
}

function measure(name, width, frame) {
  const page = frame.contentDocument;
  const all = [...page.body.querySelectorAll("*")].filter(element => element.tagName !== "SCRIPT");
  const beyond = (box, bounds) => box.width > 0 && (box.right > bounds.right + 1 || box.left < bounds.left - 1);
  const out = all.filter(element => !scrolls(element) && beyond(element.getBoundingClientRect(), { left: 0, right: width }));
  const labels = all.filter(element => element.tagName === "text");
  const cut = labels.filter(label => beyond(label.getBoundingClientRect(), label.ownerSVGElement.getBoundingClientRect()));
  const plots = [...page.querySelectorAll(".plot")];
  const flat = plots.filter(plot => {
    const box = plot.querySelector("svg").getBoundingClientRect();
    return box.width < 100 || box.height < 40 || !plot.getAttribute("aria-label");
  });
  const own = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  return {
    name,
    width,
    outside: [...out, ...cut].map(describe),
    loaded: frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name),
    plots: plots.length,
    flat: flat.length,
    letters: least(labels),
    text: least(all.filter(element => element.tagName !== "text" && own(element))),
    executed: frame.contentWindow.executed === true,
  };
}

const frames = pages.flatMap(([name, page]) => widths.map(width => {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:1000px;border:0`;
  frame.srcdoc = page;
  document.body.append(frame);
  return [name, width, frame];
}));
window.onload = () => {
  document.getElementById("seen").textContent = JSON.stringify(frames.map(frame => measure(...frame)));
  frames.forEach(([, , frame]) => frame.remove());
};
