// Drives one page as told on standard input, one JSON object a line, and answers each with one:
// drive.mjs CHROMIUM. {"do": "open", "url"}, {"do": "size", "width", "height"}, {"do": "run",
// "js"}, {"do": "await", "js"}, {"do": "click"|"press"|"focus", "at", "key"}, {"do": "hover", "at",
// "x", "y"}, {"do": "files", "at", "file"}, {"do": "scheme", "dark"}, {"do": "vision", "type"},
// {"do": "shot", "file"}.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
let session = null;
const faults = [];
const outside = [];
page.on("pageerror", (error) => faults.push(String(error)));
page.on("console", (message) => {
  if (message.type() === "error") faults.push(message.text());
});
page.on("request", (request) => {
  const local = /^(http:\/\/(127\.0\.0\.1|localhost)[:/]|data:|file:)/;
  if (!local.test(request.url())) outside.push(request.url());
});

const acts = {
  open: ({ url }) => page.goto(url).then((reply) => (reply ? reply.status() : 0)),
  size: ({ width, height }) => page.setViewportSize({ width, height }),
  run: ({ js }) => page.evaluate(js),
  // Looks again and again: the page's own policy forbids what waitForFunction would do.
  await: async ({ js, ms }) => {
    for (const end = Date.now() + (ms || 15000); Date.now() < end; ) {
      if (await page.evaluate(js)) return true;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`not so in time: ${js}`);
  },
  click: ({ at }) => page.click(at, { timeout: 5000 }),
  press: ({ at, key }) => (at ? page.press(at, key) : page.keyboard.press(key)),
  shot: ({ file }) => page.screenshot({ path: file, fullPage: true }).then(() => true),
  files: ({ at, file }) => page.setInputFiles(at, file),
  hover: ({ at, x, y }) => page.hover(at, { position: { x, y }, timeout: 5000 }),
  scheme: ({ dark }) => page.emulateMedia({ colorScheme: dark ? "dark" : "light" }),
  // "deuteranopia", "none" and what else the browser simulates.
  vision: async ({ type }) => {
    // It lasts for as long as the session.
    session = session || (await page.context().newCDPSession(page));
    await session.send("Emulation.setEmulatedVisionDeficiency", { type });
  },
  faults: () => faults.splice(0),
  outside: () => outside,
};
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await acts[command.do](command)) ?? null };
  } catch (error) {
    answer = { error: String(error).split("\n").slice(0, 3).join(" ") };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
await browser.close();
