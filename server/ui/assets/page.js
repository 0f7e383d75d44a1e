// What the page does beyond what the server renders: it follows its stream and merges what comes into what is there, shows
// times as ages, copies commands and remembers the colours. Without it everything can be read.
"use strict";

(() => {
	const root = document.documentElement, main = document.getElementById("main"), away = document.getElementById("away");
	root.classList.add("scripted");

	// Times: the server's clock counts, as that of this machine may be wrong.
	let ahead = Date.now() - Number(document.body.dataset.now);
	const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
	function age(at) {
		const seconds = Math.round((Date.now() - ahead - at) / 1000), far = Math.abs(seconds);
		if (far < 5) return "now";
		const i = units.findIndex(([size]) => far >= size);
		let text = Math.floor(far / units[i][0]) + units[i][1];
		if (i < 3 && far < 10 * units[i][0]) {
			const rest = Math.floor((far % units[i][0]) / units[i + 1][0]);
			if (rest) text += rest + units[i + 1][1];
		}
		return seconds < 0 ? "in " + text : text + " ago";
	}
	function times(within) {
		for (const t of within.querySelectorAll("time[datetime]")) {
			const text = age(Date.parse(t.dateTime));
			if (t.textContent !== text) t.textContent = text;
			if (!t.title) t.title = t.dateTime;
		}
	}
	// On a phone a row of a table is a card, whose values have the heads of their columns before them.
	function heads(within) {
		for (const table of within.querySelectorAll(".wide > table")) {
			const names = [...table.querySelectorAll("thead th")].map((th) => th.textContent.replace(/ [↑↓]$/, ""));
			for (const row of table.tBodies[0].rows) for (const [i, cell] of [...row.cells].entries()) if (cell.dataset.head !== names[i]) cell.dataset.head = names[i];
		}
	}
	times(document);
	heads(document);
	setInterval(() => { if (!document.hidden) times(document); }, 10000);

	// Merging: nodes stay the same, so that focus, scroll, selection and what people opened stay, too.
	function keyOf(node) {
		const name = node.nodeType === 1 ? node.id || node.getAttribute("aria-labelledby") : "";
		return name ? node.nodeName + "#" + name : null;
	}
	function alike(a, b) { return !keyOf(a) && a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.className === b.className; }
	function merge(old, next) {
		const kept = new Map();
		for (const node of old.childNodes) { const key = keyOf(node); if (key) kept.set(key, node); }
		let at = old.firstChild;
		for (const wanted of [...next.childNodes]) {
			const key = keyOf(wanted);
			let found = key ? kept.get(key) : null;
			if (!found && !key) {
				found = at;
				while (found && !alike(found, wanted)) found = found.nextSibling;
			}
			if (!found) { old.insertBefore(wanted, at); continue; }
			if (found !== at) old.insertBefore(found, at); else at = at.nextSibling;
			same(found, wanted);
		}
		while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
	}
	function same(old, next) {
		if (old.nodeType !== 1) { if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue; return; }
		if (old.hasAttribute("data-keep")) return; // it is filled here
		const touched = old.nodeName === "INPUT" || old.nodeName === "SELECT" || old.nodeName === "TEXTAREA";
		for (const { name } of [...old.attributes]) {
			if (!next.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS") && name !== "title" && name !== "data-head") old.removeAttribute(name);
		}
		for (const { name, value } of next.attributes) {
			if (touched && (name === "value" || name === "checked")) continue; // it is the person's
			if (old.getAttribute(name) !== value) old.setAttribute(name, value);
		}
		if (old.nodeName === "TIME" && old.dateTime === next.dateTime) return;
		if (old.nodeName === "SELECT") return;
		const down = old.hasAttribute("data-follow") && old.scrollTop + old.clientHeight >= old.scrollHeight - 4;
		merge(old, next);
		if (down) old.scrollTop = old.scrollHeight;
	}
	function show(html) {
		const next = document.createElement("template");
		next.innerHTML = html;
		merge(main, next.content);
		times(main);
		heads(main);
		const head = main.querySelector("[data-title]");
		if (head) document.title = head.dataset.title;
	}
	for (const log of document.querySelectorAll("[data-follow]")) log.scrollTop = log.scrollHeight;

	// The stream. When it breaks it is tried again until it is there; the page says so when that takes longer than a moment.
	let stream = null, tries = 0, later = 0, lost = 0, silence = 0;
	function say(text) {
		if (away.textContent !== text) away.textContent = text;
		away.hidden = !text;
	}
	// The server's clock counts here, too.
	function clock(at) { return new Date(at - ahead).toLocaleTimeString(); }
	// That it was away stays on the page until the user has read it, also when a new release of the page loads itself.
	const was = document.getElementById("was"), absences = [], saved = "drover-absences";
	function remember(from, to) {
		absences.push("Away from " + clock(from) + " to " + clock(to) + ".");
		was.firstChild.textContent = absences.slice(-5).join(" ");
		was.hidden = false;
	}
	was.querySelector("button").addEventListener("click", () => { absences.length = 0; was.hidden = true; });
	try {
		absences.push(...JSON.parse(sessionStorage.getItem(saved) || "[]"));
		sessionStorage.removeItem(saved);
		if (absences.length) { was.firstChild.textContent = absences.join(" "); was.hidden = false; }
	} catch { /* the browser keeps nothing */ }
	function heard() {
		clearTimeout(silence);
		silence = setTimeout(() => broke("the server is silent"), 25000);
	}
	function broke(why) {
		if (stream) stream.close();
		stream = null;
		clearTimeout(silence);
		if (!lost) lost = Date.now();
		// A stream that a proxy cut is back before the user is told; a later loss is one of its own.
		const mine = lost, since = clock(lost);
		setTimeout(() => { if (lost === mine) say("Away since " + since + ": " + why + ". What is shown may be old; the page comes back by itself."); }, Math.max(0, lost + 1500 - Date.now()));
		clearTimeout(later);
		later = setTimeout(open, Math.min(5000, 300 * 2 ** tries++) * (0.7 + 0.6 * Math.random()));
	}
	function open() {
		clearTimeout(later);
		if (stream || document.hidden) return;
		const at = new URL(location.href);
		at.hash = "";
		at.searchParams.set("seen", main.dataset.seen);
		stream = new EventSource(at);
		const mine = stream;
		stream.addEventListener("hello", (e) => {
			const [build, now] = e.data.split(" ");
			ahead = Date.now() - Number(now);
			if (lost && !away.hidden) remember(lost, Date.now());
			if (build !== document.body.dataset.build) {
				try { sessionStorage.setItem(saved, JSON.stringify(absences.slice(-5))); } catch { /* the browser keeps nothing */ }
				location.reload();
				return;
			}
			tries = 0;
			lost = 0;
			say("");
			heard();
		});
		stream.addEventListener("main", (e) => { heard(); show(e.data); main.dataset.seen = e.lastEventId; });
		stream.addEventListener("beat", heard);
		stream.addEventListener("over", (e) => { mine.close(); location.assign(e.data); });
		stream.addEventListener("away", (e) => { if (mine === stream) broke(e.data); });
		stream.onerror = () => { if (mine === stream) broke("the server does not answer"); };
	}
	// Pages in the background have no stream: browsers open only a few connections to a server.
	let hidden = 0;
	if (main.hasAttribute("data-live")) {
		document.addEventListener("visibilitychange", () => {
			clearTimeout(hidden);
			if (!document.hidden) { open(); return; }
			hidden = setTimeout(() => { if (stream) { stream.close(); stream = null; clearTimeout(silence); } }, 5000);
		});
		addEventListener("pagehide", () => { if (stream) { stream.close(); stream = null; } clearTimeout(later); clearTimeout(silence); });
		addEventListener("pageshow", (e) => { if (e.persisted) open(); });
		open();
	}

	// Copying.
	document.addEventListener("click", async (e) => {
		const button = e.target.closest("[data-copy]");
		if (!button) return;
		const text = button.textContent;
		try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "copied"; } catch { button.textContent = "not allowed"; }
		setTimeout(() => { button.textContent = text; }, 1500);
	});
	// Forms that show something as soon as something is ticked.
	document.addEventListener("change", (e) => { const form = e.target.form; if (form && form.hasAttribute("data-send")) form.requestSubmit(); });

	// What was done is said once: not again to a user who loads the page anew, or gets its address.
	const here = new URL(location.href);
	if (here.searchParams.has("done")) { here.searchParams.delete("done"); history.replaceState(null, "", here); }
	// What proves that a form is of this page. The user may have logged in again in another window.
	function proof() { return (document.cookie.match(/(?:^|; )CSRF=([^;]*)/) || [])[1] || ""; }
	document.addEventListener("submit", (e) => { if (e.target.hasAttribute("data-kept") && proof()) e.target.elements.CSRF.value = proof(); });
	// Forms that do something are sent once.
	document.addEventListener("submit", (e) => {
		if (!e.target.hasAttribute("data-once")) return;
		if (e.target.dataset.sent) { e.preventDefault(); return; }
		e.target.dataset.sent = "1";
	});
	addEventListener("pageshow", () => { for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent; });

	// Files are downloaded, and the page says so: it stays, and nothing else would. Any other answer is a page to be shown.
	document.addEventListener("submit", async (e) => {
		const form = e.target, told = form.querySelector("[data-told]");
		if (!form.hasAttribute("data-file")) return;
		e.preventDefault();
		told.textContent = "…";
		try {
			const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "text/html" }, redirect: "manual" });
			const [, name] = /^attachment; filename="?([^";]+)"?$/.exec(answer.headers.get("Content-Disposition") || "") || [];
			if (!name) { form.submit(); return; }
			const link = document.createElement("a");
			link.href = URL.createObjectURL(await answer.blob());
			link.download = name;
			link.click();
			setTimeout(() => URL.revokeObjectURL(link.href), 60000);
			told.textContent = name + " was downloaded at " + new Date(Date.now() - ahead).toLocaleTimeString() + ". Each press makes another one.";
		} catch { told.textContent = "The server does not answer; nothing was downloaded."; }
	});

	// Logs of hosts, poured in as they come.
	let pouring = null;
	// The output of a plan comes as records, a line of JSON each.
	function told(line) {
		let r;
		try { r = JSON.parse(line); } catch { return ""; }
		const what = r.name || "";
		if (r.data) return new TextDecoder().decode(Uint8Array.from(atob(r.data), (c) => c.charCodeAt(0)));
		switch (r.kind) {
		case "began": return "— " + what + " begins —\n";
		case "ended": return "— " + what + (r.exitCode || r.text ? " FAILED with exit code " + r.exitCode + ": " + (r.text || "") : " ended well") + " —\n";
		}
		return r.text ? what + (what && ": ") + r.text + "\n" : "";
	}
	document.addEventListener("click", async (e) => {
		const link = e.target.closest("[data-pour]");
		if (!link || e.ctrlKey || e.metaKey || e.shiftKey) return;
		e.preventDefault();
		const into = document.getElementById(link.dataset.pour);
		if (pouring) pouring.abort();
		const mine = pouring = new AbortController();
		into.hidden = false;
		into.textContent = "";
		into.focus();
		const most = 400000;
		// The end is followed until the user scrolls away from it: a new width moves the end, and the user did not ask for that.
		let following = true, left = 0, wide = into.clientWidth;
		function pour(text) {
			if (into.scrollTop !== left && into.clientWidth === wide) following = into.scrollTop + into.clientHeight >= into.scrollHeight - 4;
			into.append(text);
			if (into.textContent.length > most) into.textContent = into.textContent.slice(-most / 2);
			if (following) into.scrollTop = into.scrollHeight;
			left = into.scrollTop;
			wide = into.clientWidth;
		}
		try {
			const answer = await fetch(link.href, { signal: mine.signal, headers: { Accept: "text/plain, application/json" } });
			if (!answer.ok) { pour((await answer.json()).message); return; }
			const text = answer.body.pipeThrough(new TextDecoderStream()).getReader(), records = link.hasAttribute("data-records");
			let rest = "";
			for (let part; !(part = await text.read()).done;) {
				if (!records) { pour(part.value); continue; }
				const whole = (rest + part.value).split("\n");
				rest = whole.pop();
				pour(whole.map(told).join(""));
			}
			pour(link.href.includes("follow=true") ? "\n(cut off: the way to the host is lost, or the host ended the log)\n" : "\n(the log ends here)\n");
		} catch (err) { if (!mine.signal.aborted) pour("\n(the server does not answer)\n"); }
	});

	// Documents are looked at while the user types them.
	for (const text of document.querySelectorAll("[data-check]")) {
		const wrong = document.getElementById("wrong");
		let due = 0, asked = 0;
		function place(line) {
			const before = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
			const end = text.value.indexOf("\n", before);
			text.focus();
			text.setSelectionRange(before, end < 0 ? text.value.length : end);
			text.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(text).lineHeight));
		}
		wrong.addEventListener("click", (e) => {
			const link = e.target.closest("[data-line]");
			if (link) { e.preventDefault(); place(Number(link.dataset.line)); }
		});
		async function check() {
			const mine = ++asked;
			let found;
			try {
				const answer = await fetch("/dashboard/check", { method: "POST", headers: { "Content-Type": "application/yaml", "X-API-CSRF": proof() }, body: text.value });
				if (mine !== asked) return;
				if (!answer.ok) {
					const why = answer.status === 401 ? "your session is over. Log in again in another window; what you typed stays here" : (await answer.json()).message;
					wrong.textContent = "This is not checked while you type: " + why + ".";
					return;
				}
				found = (await answer.json()).errors || [];
			} catch { if (mine === asked) wrong.textContent = "This is not checked while you type: the server does not answer."; return; }
			if (mine !== asked) return;
			wrong.textContent = "";
			text.setAttribute("aria-invalid", String(found.length > 0));
			if (!found.length) return;
			const list = document.createElement("ul");
			list.className = "wrong";
			for (const one of found.slice(0, 20)) {
				const item = document.createElement("li");
				if (one.line) {
					const link = document.createElement("a");
					link.href = "#text";
					link.dataset.line = one.line;
					link.textContent = "line " + one.line;
					item.append(link, " ");
				}
				if (one.path) {
					const code = document.createElement("code");
					code.textContent = one.path;
					item.append(code, " ");
				}
				item.append(one.reason);
				list.append(item);
			}
			wrong.append(list);
		}
		text.addEventListener("input", () => { clearTimeout(due); due = setTimeout(check, 400); });
	}

	// Colours: of the system, dark or light.
	const button = document.querySelector("[data-look-next]"), looks = ["", "dark", "light"];
	function look(now) {
		if (now) root.dataset.look = now; else delete root.dataset.look;
		button.textContent = { "": "as the system", dark: "dark", light: "light" }[now];
		button.setAttribute("aria-label", "Colours: " + button.textContent);
	}
	look(root.dataset.look || "");
	button.addEventListener("click", () => {
		const next = looks[(looks.indexOf(root.dataset.look || "") + 1) % 3];
		document.cookie = "drover-look=" + next + "; path=/dashboard; max-age=" + (next ? 31536000 : 0) + "; secure; samesite=lax";
		look(next);
	});
})();
