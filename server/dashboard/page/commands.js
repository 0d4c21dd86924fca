// Commands to the coordinator, sent after a confirmation, and its answers.
"use strict";

const Commands = (() => {
  const { $, text } = Page;

  function toast(message) {
    text("toast", message);
    $("toast").hidden = false;
    clearTimeout(toast.timer);
    toast.timer = setTimeout(() => { $("toast").hidden = true; }, 6000);
  }
  async function send(path, body) {
    try {
      const reply = await fetch(path, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
      const answer = await reply.json();
      toast(answer.message || answer.error || "done");
      return reply.ok;
    } catch {
      toast("the coordinator cannot be reached");
      return false;
    }
  }
  /** also: a second, dangerous choice with its text. */
  function ask(question, yes, then, also) {
    text("ask-text", question);
    text("ask-yes", yes);
    $("ask-yes").onclick = () => { $("ask").close(); then(); };
    $("ask-no").onclick = () => $("ask").close();
    $("ask-also").hidden = !also;
    if (also) {
      text("ask-also", also.words);
      $("ask-also").onclick = () => { $("ask").close(); also.then(); };
    }
    $("ask").showModal();
  }

  return { toast, send, ask };
})();
