// A real server for the tests, and a way between that can be spoiled.
import { execFile, spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const binary = process.env.DAYBOOK_BIN ?? "daybook";
const deadline = 60_000;

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const unique = (prefix) => `${prefix}-${crypto.randomUUID().slice(0, 8)}`;
export const quiet = { info() {}, warn() {}, error() {} };

/** Polls a condition, and fails with what it was when it never holds. */
export async function awaits(what, ready) {
  for (const until = Date.now() + deadline; Date.now() < until; await pause(20)) {
    const found = await ready();
    if (found) return found;
  }
  throw new Error(`never: ${what}`);
}

/** A promise to be told, with a deadline. */
export function told(what) {
  let tell;
  const promise = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`never: ${what}`)), deadline);
    tell = (value) => (clearTimeout(timer), resolve(value));
  });
  promise.catch(() => {});
  return { promise, tell };
}

/** `daybook serve` in a process of its own. It keeps its address when it is killed
 * and started again. */
export class Server {
  folder = mkdtempSync(join(tmpdir(), "daybook-client-"));
  address = "127.0.0.1:0";

  static async start(db) {
    const server = new Server();
    server.db = db ?? (process.env.DAYBOOK_TEST_DB || `sqlite:${join(server.folder, "test.db")}`);
    await server.start();
    return server;
  }

  async start() {
    const args = ["--db", this.db, "serve", "--listen", this.address];
    const child = spawn(binary, args, { stdio: ["ignore", "ignore", "pipe"] });
    this.child = child;
    this.ended = new Promise((resolve) => child.once("exit", resolve));
    const lines = createInterface({ input: child.stderr });
    this.address = await new Promise((resolve, reject) => {
      const said = [];
      lines.on("line", (line) => {
        said.push(line);
        const found = /url=http:\/\/(\S+)/.exec(line);
        if (found) resolve(found[1]);
      });
      lines.on("close", () => reject(new Error(`the server ended:\n${said.join("\n")}`)));
    });
  }

  get url() {
    return `http://${this.address}`;
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  async close() {
    this.child.kill("SIGTERM");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await this.ended;
    clearTimeout(timer);
  }

  /** The command, on the server's database. */
  daybook(...args) {
    return new Promise((resolve, reject) => {
      execFile(binary, ["--db", this.db, ...args], { timeout: deadline }, (failed, out, err) =>
        failed ? reject(new Error(`daybook ${args.join(" ")}: ${failed}\n${err}`)) : resolve(out),
      );
    });
  }
}

/** Passes calls on to a server, or answers something else: spoil is asked for each
 * call, and answers a name of what to do, or undefined to pass it on. */
export class Between {
  spoil = () => undefined;
  spoiled = [];
  calls = [];

  static async start(server) {
    const between = new Between();
    between.http = http.createServer((asked, answer) => between.#carry(server, asked, answer));
    await new Promise((resolve) => between.http.listen(0, "127.0.0.1", resolve));
    between.url = `http://127.0.0.1:${between.http.address().port}`;
    return between;
  }

  async close() {
    this.http.closeAllConnections();
    await new Promise((resolve) => this.http.close(resolve));
  }

  async #carry(server, asked, answer) {
    const parts = [];
    for await (const part of asked) parts.push(part);
    this.calls.push({ path: asked.url, key: asked.headers["idempotency-key"] });
    const how = this.spoil(asked.url);
    if (how !== undefined) this.spoiled.push(how);
    const say = (status, headers, text) =>
      answer.writeHead(status, { "Content-Length": Buffer.byteLength(text), ...headers }).end(text);
    switch (how) {
      case "html":
        return say(502, { "Content-Type": "text/html" }, "<html>Bad gateway</html>");
      case "false html":
        return say(200, { "Content-Type": "text/html" }, "<html>Sign in</html>");
      case "other json":
        return say(200, { "Content-Type": "application/json" }, '{"session":7}');
      case "rate limited":
        return say(429, { "Content-Type": "application/problem+json", "Retry-After": "1" },
          '{"type":"","title":"","status":429,"detail":"slowly","code":"rate_limited"}');
      case "gone":
        return asked.socket.destroy();
    }
    const { "idempotency-key": key, "content-type": type } = asked.headers;
    const headers = { ...(key ? { "Idempotency-Key": key } : {}), ...(type ? { "Content-Type": type } : {}) };
    const request = { method: asked.method, headers, agent: false };
    const to = http.request(`${server.url}${asked.url}`, request, async (got) => {
      const back = [];
      for await (const part of got) back.push(part);
      const text = Buffer.concat(back);
      if (how === "lost answer") return asked.socket.destroy(); // the server has done it
      const media = got.headers["content-type"] ? { "Content-Type": got.headers["content-type"] } : {};
      if (how === "truncated") {
        answer.writeHead(got.statusCode, { ...media, "Content-Length": text.length });
        return answer.write(text.subarray(0, text.length / 2), () => asked.socket.destroy());
      }
      if (got.statusCode === 204) return answer.writeHead(204).end();
      say(got.statusCode, media, text);
    });
    to.on("error", () => asked.socket.destroy());
    asked.socket.on("close", () => to.destroy());
    to.end(Buffer.concat(parts));
  }
}

/** A program that uses the package, in a process of its own. */
export class Script {
  said = [];

  constructor(program, args, server) {
    this.child = spawn(process.execPath, [...program, ...args], {
      env: { ...process.env, DAYBOOK_SERVER: server.url }, stdio: ["ignore", "pipe", "inherit"],
      cwd: new URL("..", import.meta.url).pathname,
    });
    this.timer = setTimeout(() => this.child.kill("SIGKILL"), deadline);
    this.ended = new Promise((resolve) => this.child.once("close", resolve));
    this.lines = createInterface({ input: this.child.stdout });
    this.lines.on("line", (line) => this.said.push(line));
  }

  says(text, times = 1) {
    return awaits(`it says ${text}`, () => this.said.filter((line) => line.includes(text)).length >= times);
  }

  async ends() {
    const code = await this.ended;
    clearTimeout(this.timer);
    return code;
  }
}
