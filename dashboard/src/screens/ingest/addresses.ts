// The addresses of this server, from the configuration in effect, as a client in another program needs them.
import { call } from "../../api/client";

export interface Addresses {
  /** The origin of the page, with the prefix of a proxy if there is one. */
  http: string;
  grpc: string | null;
  mysql: string | null;
  postgres: string | null;
  opentsdb: string | null;
}

export async function loadAddresses(signal: AbortSignal): Promise<Addresses> {
  const prefix = location.pathname.split("/dashboard")[0] ?? "";
  const config = parseAddresses(await (await call("/config", { signal })).text());
  return { ...reachable(config, location.hostname), http: location.origin + prefix };
}

export interface Listener {
  addr: string;
  isEnabled: boolean;
}

/** Read `addr` and `enable` of the sections of a configuration in TOML. */
export function parseAddresses(toml: string): Map<string, Listener> {
  const found = new Map<string, Listener>();
  let section = "";
  for (const line of toml.split("\n")) {
    const heading = /^\[([\w.]+)\]/.exec(line);
    if (heading) section = heading[1] ?? "";
    else if (line.startsWith("[")) section = "";
    const pair = /^(addr|enable) = ("([^"]*)"|true|false)/.exec(line);
    if (!pair || section === "") continue;
    const entry = found.get(section) ?? { addr: "", isEnabled: true };
    if (pair[1] === "addr") entry.addr = pair[3] ?? "";
    else entry.isEnabled = pair[2] === "true";
    found.set(section, entry);
  }
  return found;
}

/** The addresses of protocols that are enabled. One that listens everywhere is reached by the name of the page. */
export function reachable(config: Map<string, Listener>, host: string): Omit<Addresses, "http"> {
  const of = (section: string): string | null => {
    const entry = config.get(section);
    if (!entry?.isEnabled || !entry.addr) return null;
    const colon = entry.addr.lastIndexOf(":");
    const name = entry.addr.slice(0, colon);
    return ["0.0.0.0", "[::]", "::", ""].includes(name) ? host + entry.addr.slice(colon) : entry.addr;
  };
  return { grpc: of("grpc"), mysql: of("mysql"), postgres: of("postgres"), opentsdb: of("opentsdb") };
}
