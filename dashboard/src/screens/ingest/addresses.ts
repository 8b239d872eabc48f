// The addresses of this server, from the configuration in effect, as a client in another program needs them.
import { call } from "../../api/client";
import { userName } from "../../api/credentials";

/** Where a protocol is, and whether it is encrypted there. */
export interface Endpoint {
  /** host:port */
  address: string;
  usesTls: boolean;
}

export interface Addresses {
  /** The origin of the page, with the prefix of a proxy if there is one. */
  http: string;
  grpc: Endpoint | null;
  mysql: Endpoint | null;
  postgres: Endpoint | null;
  opentsdb: Endpoint | null;
  /** Who is logged in, if the server has users. */
  user: string | null;
}

export async function loadAddresses(signal: AbortSignal): Promise<Addresses> {
  const prefix = location.pathname.split("/dashboard")[0] ?? "";
  const config = parseAddresses(await (await call("/config", { signal })).text());
  const http = location.origin + prefix;
  return { ...reachable(config, location.hostname), http, user: userName() };
}

export interface Listener {
  addr: string;
  isEnabled: boolean;
  tlsMode: string;
}

/** Read `addr` and `enable` of the sections of a configuration in TOML, and `mode` of their sections `tls`. */
export function parseAddresses(toml: string): Map<string, Listener> {
  const found = new Map<string, Listener>();
  let section = "";
  for (const line of toml.split("\n")) {
    const heading = /^\[([\w.]+)\]/.exec(line);
    if (heading) section = heading[1] ?? "";
    else if (line.startsWith("[")) section = "";
    const pair = /^(addr|enable|mode) = ("([^"]*)"|true|false)/.exec(line);
    if (!pair || section === "") continue;
    const isTls = section.endsWith(".tls");
    if ((pair[1] === "mode") !== isTls) continue;
    const name = isTls ? section.slice(0, -".tls".length) : section;
    const entry = found.get(name) ?? { addr: "", isEnabled: true, tlsMode: "disable" };
    if (pair[1] === "mode") entry.tlsMode = pair[3] ?? "";
    else if (pair[1] === "addr") entry.addr = pair[3] ?? "";
    else entry.isEnabled = pair[2] === "true";
    found.set(name, entry);
  }
  return found;
}

type Protocols = Omit<Addresses, "http" | "user">;

/** Where protocols are that are enabled. One that listens everywhere is reached by the name of the page. */
export function reachable(config: Map<string, Listener>, host: string): Protocols {
  const of = (section: string, plainModes: readonly string[]): Endpoint | null => {
    const entry = config.get(section);
    if (!entry?.isEnabled || !entry.addr) return null;
    const colon = entry.addr.lastIndexOf(":");
    const name = entry.addr.slice(0, colon);
    const isEverywhere = ["0.0.0.0", "[::]", "::", ""].includes(name);
    return {
      address: isEverywhere ? host + entry.addr.slice(colon) : entry.addr,
      usesTls: !plainModes.includes(entry.tlsMode),
    };
  };
  return {
    // One port of gRPC cannot have both, and with `prefer` it is plain text.
    grpc: of("grpc", ["disable", "prefer"]),
    mysql: of("mysql", ["disable"]),
    postgres: of("postgres", ["disable"]),
    opentsdb: of("opentsdb", ["disable"]),
  };
}
