// A real cluster on loopback with etcd and S3 by moto, which ends with the tests.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";

const ROOT = join(import.meta.dirname, "../..");
/** Ten processes on a machine that may be busy. */
export const START_MS_MAX = 300_000;
const ERRORS_SHOWN_MAX = 10_000;

export interface Cluster {
  /** Of the first frontend: http://127.0.0.1:port */
  url: string;
  stop(): Promise<void>;
}

export async function startCluster(): Promise<Cluster> {
  const child = spawn(join(ROOT, ".venv/bin/python"), ["-m", "tests.cluster", "--json"], {
    cwd: ROOT,
    env: { ...process.env, PYTHONPATH: ROOT },
  });
  let errors = "";
  child.stderr.on("data", (data: Buffer) => {
    errors = (errors + data).slice(-ERRORS_SHOWN_MAX);
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  const late = setTimeout(stop, START_MS_MAX);
  const ready = new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).once("line", resolve);
    ended.then((code) => reject(new Error(`the cluster ended with ${code}:\n${errors}`)));
  });
  try {
    const { frontends } = JSON.parse(await ready) as { frontends: string[] };
    if (!frontends[0]) throw new Error("the cluster has no frontend");
    return { url: frontends[0], stop };
  } catch (error) {
    await stop();
    throw error;
  } finally {
    clearTimeout(late);
  }
}
