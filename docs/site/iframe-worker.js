// The search of the site runs in a worker, and browsers start no worker from file:// pages. There a hidden frame runs its script instead.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const script = document.createElement("script");
      script.src = new URL(url, location.href);
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.waiting = [];
      frame.addEventListener("load", () => {
        const inside = frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        script.addEventListener("load", () => {
          this.postMessage = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
          this.waiting.splice(0).forEach(this.postMessage);
        });
        inside.document.body.append(script);
      }, { once: true });
      frame.srcdoc = "<body></body>";
      document.body.append(frame);
    }
    postMessage(data) {
      this.waiting.push(data);
    }
    terminate() {}
  };
}
