// A real `tsdb standalone` process with a data directory of its own, which ends with the tests.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
const TSDB = join(ROOT, ".venv/bin/tsdb");
const PYTHON = join(ROOT, ".venv/bin/python");
const START_MS_MAX = 120_000;

export interface Server {
  /** http://127.0.0.1:port, or with https */
  url: string;
  sql(statement: string): Promise<unknown>;
  write(lines: string): Promise<void>;
  /** Load what `tsdb demo` loads. */
  loadDemo(): void;
  stop(): Promise<void>;
}

export interface ServerOptions {
  /** User and password that everybody has to log in with. */
  login?: { user: string; password: string };
  /** All protocols only over TLS, with a certificate that nobody knows: `sql` and `write` are not for such a server. */
  usesTls?: boolean;
}

export async function startServer({ login, usesTls }: ServerOptions = {}): Promise<Server> {
  const home = mkdtempSync(join(tmpdir(), "tsdb-e2e-"));
  const free = ["http", "rpc", "mysql", "postgres"].flatMap((name) => [`--${name}-addr`, "127.0.0.1:0"]);
  const env = {
    ...process.env,
    PYTHONPATH: ROOT,
    TSDB_STANDALONE__OPENTSDB__ENABLE: "false",
    TSDB_STANDALONE__LOGGING__DIR: join(home, "logs"),
    ...(login && {
      TSDB_STANDALONE__USER_PROVIDER: `static_user_provider:cmd:${login.user}=${login.password}`,
    }),
    ...(usesTls && makeCertificate(home)),
  };
  const child = spawn(TSDB, ["standalone", "start", "--data-home", join(home, "data"), ...free], { env });
  const url = await waitReady(child);
  const headers: Record<string, string> = login
    ? { authorization: `Basic ${Buffer.from(`${login.user}:${login.password}`).toString("base64")}` }
    : {};
  return {
    url,
    async sql(statement) {
      const body = new URLSearchParams({ sql: statement });
      const answer = await fetch(`${url}/v1/sql`, { method: "POST", body, headers });
      if (!answer.ok) throw new Error(await answer.text());
      return answer.json();
    },
    async write(lines) {
      const path = "/v1/influxdb/write?precision=ms";
      const answer = await fetch(url + path, { method: "POST", body: lines, headers });
      if (!answer.ok) throw new Error(await answer.text());
    },
    loadDemo: () => loadDemo(url),
    async stop() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** Run `tsdb demo` against a server. */
export function loadDemo(url: string): void {
  const env = { ...process.env, PYTHONPATH: ROOT };
  execFileSync(TSDB, ["demo", "--url", url, "--quiet"], { env, stdio: "inherit" });
}

/** Make a certificate; return the variables of a server that uses it. */
function makeCertificate(directory: string): Record<string, string> {
  execFileSync(PYTHON, ["-m", "trustme", "-q", "-d", directory, "-i", "127.0.0.1"]);
  const protocols = ["HTTP", "GRPC", "MYSQL", "POSTGRES"].map((name) => `TSDB_STANDALONE__${name}__TLS`);
  return Object.fromEntries(
    protocols.flatMap((section) => [
      [`${section}__MODE`, "require"],
      [`${section}__CERT_PATH`, join(directory, "server.pem")],
      [`${section}__KEY_PATH`, join(directory, "server.key")],
    ]),
  );
}

function waitReady(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    const late = setTimeout(() => reject(new Error(`the server did not start:\n${output}`)), START_MS_MAX);
    const read = (data: Buffer) => {
      output += data;
      const found = /^ {2}HTTP +(https?:\S+)$/m.exec(output);
      if (!found?.[1] || !/component=standalone|\n {2}data/.test(output)) return;
      clearTimeout(late);
      resolve(found[1]);
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}:\n${output}`)));
  });
}
