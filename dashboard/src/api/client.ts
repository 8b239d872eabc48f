// Requests to the server that served the page, with the user's credentials.
import { timeZone } from "../frame/zone";
import { askCredentials, authorization } from "./credentials";

/** What the server refused or failed at, in its own words. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    /** The status code of the product, or the error type of the Prometheus API. */
    readonly code: string = "",
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export interface CallOptions {
  method?: "GET" | "POST";
  /** Parameters of the query string; those without a value are left out. */
  params?: Record<string, string | number | undefined>;
  /** Sent as a form. */
  form?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** The address of a path of the server, which may be behind a proxy that adds a prefix. */
export function addressOf(path: string, params: CallOptions["params"] = {}): string {
  const prefix = location.pathname.split("/dashboard")[0] ?? "";
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined) query.set(name, String(value));
  }
  const text = query.toString();
  return prefix + path + (text ? `?${text}` : "");
}

/** Send a request and return the answer, whatever its status; on 401 ask for credentials and try again. */
export async function send(path: string, options: CallOptions = {}): Promise<Response> {
  for (;;) {
    const used = authorization();
    const response = await fetch(addressOf(path, options.params), {
      method: options.method ?? (options.form || options.body !== undefined ? "POST" : "GET"),
      headers: headersOf(options, used),
      body: options.form ? new URLSearchParams(options.form) : (options.body ?? null),
      signal: options.signal ?? null,
      // The page asks for credentials itself: with this, the browser does not.
      credentials: "omit",
      cache: "no-store",
    });
    if (response.status !== 401) return response;
    const error = await errorOf(response);
    if (authorization() !== used) continue;
    try {
      await askCredentials(used === null ? "" : error.message);
    } catch {
      throw error;
    }
  }
}

/** Send a request; an answer that is not a success becomes an ApiError. */
export async function call(path: string, options: CallOptions = {}): Promise<Response> {
  const response = await send(path, options);
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function callJson<T>(path: string, options: CallOptions = {}): Promise<T> {
  return parseJson(await (await call(path, options)).text()) as T;
}

/** Read the error of an answer, in the form of any of the APIs. */
export async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as {
      error?: unknown;
      message?: unknown;
      code?: unknown;
      errorType?: unknown;
    };
    const message = body.error ?? body.message;
    if (typeof message === "string") {
      return new ApiError(message, response.status, String(body.errorType ?? body.code ?? ""));
    }
  } catch {
    // Not JSON: the text itself is the message.
  }
  return new ApiError(text.trim() || `the server answered ${response.status}`, response.status);
}

/** Parse JSON in which integers may have more digits than a number holds; those become bigint. */
export function parseJson(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const keepDigits = (_key: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" &&
    !Number.isSafeInteger(value) &&
    context?.source !== undefined &&
    /^-?\d+$/.test(context.source)
      ? BigInt(context.source)
      : value;
  return JSON.parse(text, keepDigits as (key: string, value: unknown) => unknown);
}

/** Whether an error only says that the request was cancelled by the page. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function messageOf(error: unknown): string {
  if (error instanceof TypeError) return `the server cannot be reached (${error.message})`;
  return error instanceof Error ? error.message : String(error);
}

function headersOf(options: CallOptions, auth: string | null): Record<string, string> {
  const headers: Record<string, string> = { "x-tsdb-timezone": timeZone(), ...options.headers };
  if (auth !== null) headers.authorization = auth;
  return headers;
}
