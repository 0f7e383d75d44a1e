// The terminal of a cluster: the same form as without scripts, whose answer is read as it comes. What was typed on this page
// and what it printed stay until the page is left; nothing of it is kept anywhere.
"use strict";

(() => {
	const form = document.getElementById("prompt"), field = document.getElementById("line"), stop = document.getElementById("stop"), output = document.getElementById("output");
	if (!form) return;
	const most = 2 << 20; // characters on the page; the oldest go first
	const past = [];
	let at = 0, draft = "", running = null;

	function down() { output.scrollTop = output.scrollHeight; }
	function add(name, text, kind) {
		const near = output.scrollTop + output.clientHeight >= output.scrollHeight - 8;
		const node = document.createElement(name);
		if (kind) node.className = kind;
		node.textContent = text;
		if (output.hasAttribute("data-empty")) { output.textContent = ""; output.removeAttribute("data-empty"); }
		output.append(node);
		if (near) down();
		return node;
	}
	function more(node, text) {
		const near = output.scrollTop + output.clientHeight >= output.scrollHeight - 8;
		node.append(text);
		let length = output.textContent.length;
		while (length > most && output.firstChild !== node) { length -= output.firstChild.textContent.length; output.firstChild.remove(); }
		while (length > most && node.firstChild !== node.lastChild) { length -= node.firstChild.length; node.firstChild.remove(); }
		if (near) down();
	}
	// What proves that the form is of this page is that of the session of now: the user may have logged in again beside it.
	function proof() { return (document.cookie.match(/(?:^|; )CSRF=([^;]*)/) || [])[1] || form.elements.CSRF.value; }
	async function run(line) {
		running = new AbortController();
		stop.disabled = false;
		add("p", "kubectl " + line, "typed");
		const node = add("pre", "");
		down();
		try {
			const answer = await fetch(form.action, {
				method: "POST", body: new URLSearchParams({ CSRF: proof(), line }), headers: { Accept: "text/plain" }, redirect: "manual", signal: running.signal,
			});
			if ((answer.status === 401 || answer.status === 422) && !field.value) field.value = line; // to be sent once more
			if (!(answer.headers.get("Content-Type") || "").startsWith("text/plain")) throw new Error("the server refused it (status " + answer.status + "); load the page again to see why");
			const text = new TextDecoder();
			for (const reader = answer.body.getReader(); ;) {
				const { done, value } = await reader.read();
				more(node, text.decode(value, { stream: !done }));
				if (done) break;
			}
		} catch (e) {
			more(node, "\ndrover: " + (e.name === "AbortError" ? "stopped" : e.message));
		} finally {
			if (!node.textContent) node.remove();
			running = null;
			stop.disabled = true;
			field.focus();
		}
	}
	form.addEventListener("submit", (e) => {
		e.preventDefault();
		const line = field.value.trim();
		if (!line || running) return;
		if (past[past.length - 1] !== line) past.push(line);
		at = past.length;
		field.value = "";
		run(line);
	});
	stop.addEventListener("click", () => { if (running) running.abort(); });
	field.addEventListener("keydown", (e) => {
		if (e.key === "c" && e.ctrlKey && running && field.selectionStart === field.selectionEnd) { e.preventDefault(); running.abort(); return; }
		if (e.key !== "ArrowUp" && e.key !== "ArrowDown") return;
		const next = at + (e.key === "ArrowUp" ? -1 : 1);
		if (next < 0 || next > past.length) return;
		e.preventDefault();
		if (at === past.length) draft = field.value;
		at = next;
		field.value = at === past.length ? draft : past[at];
		field.setSelectionRange(field.value.length, field.value.length);
	});
	down();
})();
