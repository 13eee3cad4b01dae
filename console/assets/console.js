// What the console does beside its pages: it follows the book while somebody looks,
// and knows a few keys. Everything works without it.
"use strict";
(() => {
  const body = document.body;
  const state = document.querySelector("[data-live-state]");
  let stream = null;

  // morph makes an element's inside like another's and keeps what the person did
  // there: focus, text that is typed, what is folded open.
  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
    (a.id || "") === (b.id || "");
  // later finds, behind an element, one that is the same by its id, or that would be
  // if the first were gone.
  const later = (at, next) => {
    if (!at || same(at, next)) return at;
    for (let other = at.nextSibling; other; other = other.nextSibling) {
      if (same(other, next) && (next.id || other === at.nextSibling)) return other;
    }
    return null;
  };
  const morph = (into, from) => {
    const want = [...from.childNodes];
    let at = into.firstChild;
    for (const next of want) {
      const kept = later(at, next);
      while (kept && at !== kept) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      if (at && same(at, next)) {
        if (at.nodeType === Node.ELEMENT_NODE) {
          attributes(at, next);
          morph(at, next);
        } else if (at.nodeValue !== next.nodeValue) {
          at.nodeValue = next.nodeValue;
        }
        at = at.nextSibling;
      } else {
        into.insertBefore(document.importNode(next, true), at);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };
  const attributes = (a, b) => {
    for (const { name, value } of [...b.attributes]) {
      if (a.getAttribute(name) !== value) a.setAttribute(name, value);
    }
    for (const { name } of [...a.attributes]) {
      if (!b.hasAttribute(name) && !(name === "open" && a.nodeName === "DETAILS")) a.removeAttribute(name);
    }
  };

  // What was just done is said once: an address that is loaded again, kept or sent to
  // somebody doesn't say it.
  const here = new URL(location.href);
  if (here.searchParams.has("done")) {
    for (const name of ["done", "queue"]) here.searchParams.delete(name);
    history.replaceState(null, "", here);
  }

  const say = (text, on) => {
    if (!state || (state.textContent === text && state.classList.contains("on") === on)) return;
    state.textContent = text;
    state.classList.toggle("on", on);
    state.classList.toggle("off", !on);
  };

  // A part in which text is selected waits with what is new, so that it can be copied;
  // and the page says that it does.
  const held = new Map();
  const live = () => say(held.size ? "not live while text is selected" : "live", !held.size);
  const selects = (part) => {
    const selected = window.getSelection();
    return !selected.isCollapsed && selected.containsNode(part, true);
  };
  const show = (part, html) => morph(part, new DOMParser().parseFromString("<body>" + html, "text/html").body);
  document.addEventListener("selectionchange", () => {
    if (!held.size) return;
    for (const [part, html] of [...held]) {
      if (selects(part)) continue;
      held.delete(part);
      show(part, html);
    }
    if (stream && stream.readyState === EventSource.OPEN && !held.size && !fault) live();
  });

  // A server that hangs, or a line that was cut without a word, looks like one that
  // has nothing to say; but it says something every 15 s.
  let heard = 0;
  let fault = ""; // why the server can't follow the book
  const hear = () => { heard = Date.now(); };
  setInterval(() => {
    if (!stream || Date.now() - heard < 40000) return;
    say("not live: nothing heard from the server", false);
    if (stream.readyState !== EventSource.CONNECTING) {
      close();
      open();
    }
  }, 2000);

  const close = () => {
    if (stream) stream.close();
    stream = null;
  };

  const open = () => {
    if (stream || !body.dataset.stream || document.hidden) return;
    stream = new EventSource(body.dataset.stream);
    hear(); // it has as long as any to say something
    stream.onopen = () => { hear(); fault = ""; live(); };
    stream.onerror = () => {
      if (stream && stream.readyState === EventSource.CLOSED) {
        close();
        say("not live: load the page again", false);
        setTimeout(open, 60000); // a proxy may have said no while the server began anew
        return;
      }
      say("not live: trying again", false);
    };
    stream.addEventListener("bye", () => location.reload());
    stream.addEventListener("beat", hear);
    stream.addEventListener("state", (event) => {
      hear();
      if ((fault = event.data)) say(fault, false);
      else live();
    });
    for (const part of document.querySelectorAll("[data-live]")) {
      stream.addEventListener(part.dataset.live, (event) => {
        hear();
        if (selects(part)) {
          held.set(part, event.data);
          if (!fault) live();
        } else {
          held.delete(part);
          show(part, event.data);
        }
      });
    }
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      close();
      say("paused while hidden", false);
    } else {
      open();
    }
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();

  // The theme is set by its choice alone; the button is for browsers without this.
  const theme = document.getElementById("theme");
  if (theme) {
    theme.form.querySelector("button").hidden = true;
    theme.addEventListener("change", () => theme.form.requestSubmit());
  }

  // Times are UTC; whoever points at one is told what their own clock said.
  document.addEventListener("pointerover", (event) => {
    const time = event.target.closest("time");
    if (time && !time.title.includes("your clock")) {
      time.title += "\n" + new Date(time.dateTime).toLocaleString() + " by your clock";
    }
  });

  // A click on an id or a key selects all of it.
  document.addEventListener("click", (event) => {
    const whole = event.target.closest("[data-copy]");
    if (whole) window.getSelection().selectAllChildren(whole);
  });

  // Keys: g and a letter go to a page, / finds, n turns the page, ? explains.
  let before = "";
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || at.matches("input, textarea, select")) return;
    const find = document.getElementById("find");
    let to = null;
    if (before === "g") {
      to = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    } else if (event.key === "/" && find) {
      event.preventDefault();
      find.focus();
    } else if (event.key === "n") {
      to = document.querySelector("a[data-next]");
    } else if (event.key === "?") {
      location.href = body.dataset.base + "keys";
    }
    before = before === "g" ? "" : event.key;
    if (to) to.click();
  });
})();
