// A real cluster on loopback with etcd and S3 by moto, which ends with the tests.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";

const ROOT = join(import.meta.dirname, "../..");
/** Ten processes on a machine that may be busy. */
export const START_MS_MAX = 300_000;
const ERRORS_SHOWN_MAX = 10_000;

interface Node {
  /** Such as datanode-1, where 1 is its id. */
  name: string;
  url: string;
  pid: number;
}

export interface Cluster {
  /** Of the first frontend: http://127.0.0.1:port */
  url: string;
  /** Kill a datanode, as a power failure would. */
  killDatanode(id: number): void;
  /** Let the metadata servers move the regions of lost nodes, or not. */
  switchFailovers(areOn: boolean): Promise<void>;
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
    const { frontends, datanodes, metasrvs } = JSON.parse(await ready) as Record<string, Node[]>;
    const [frontend] = frontends ?? [];
    if (!frontend) throw new Error("the cluster has no frontend");
    const killDatanode = (id: number) => {
      const node = datanodes?.find(({ name }) => name === `datanode-${id}`);
      if (!node) throw new Error(`there is no datanode ${id}`);
      process.kill(node.pid, "SIGKILL");
    };
    const switchFailovers = (areOn: boolean) => switchMaintenance(metasrvs ?? [], !areOn);
    return { url: frontend.url, killDatanode, switchFailovers, stop };
  } catch (error) {
    await stop();
    throw error;
  } finally {
    clearTimeout(late);
  }
}

/** Only the leader of the metadata servers does it; the others refuse. */
async function switchMaintenance(metasrvs: Node[], isOn: boolean): Promise<void> {
  for (const { url } of metasrvs) {
    const answer = await fetch(`${url}/admin/maintenance/${isOn ? "enable" : "disable"}`, { method: "POST" });
    if (answer.ok) return;
  }
  throw new Error("no metadata server leads");
}
