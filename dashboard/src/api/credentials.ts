// User and password, kept for as long as the tab is open, and the question for them: requests that were refused wait
// for one and the same answer.

const KEY = "tsdb.credentials";

export interface Question {
  /** Why the server refused; empty if nothing was sent yet. */
  reason: string;
  answer(user: string, password: string): void;
  cancel(): void;
}

type Asker = (question: Question | null) => void;

let asker: Asker = () => {};
let pending: Promise<void> | null = null;
const listeners = new Set<() => void>();

/** The value of the header Authorization, null without a login. */
export function authorization(): string | null {
  const stored = sessionStorage.getItem(KEY);
  return stored === null ? null : `Basic ${stored}`;
}

export function userName(): string | null {
  const stored = sessionStorage.getItem(KEY);
  return stored === null ? null : (decode(stored).split(":", 1)[0] ?? null);
}

export function forgetCredentials(): void {
  sessionStorage.removeItem(KEY);
  for (const listener of listeners) listener();
}

export function onCredentials(listener: () => void): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** The frame shows the dialog. */
export function setAsker(show: Asker): void {
  asker = show;
}

/** Return when the user has entered credentials; throws if the user would not. */
export function askCredentials(reason: string): Promise<void> {
  pending ??= new Promise<void>((resolve, reject) => {
    asker({
      reason,
      answer(user, password) {
        sessionStorage.setItem(KEY, encode(`${user}:${password}`));
        close();
        for (const listener of listeners) listener();
        resolve();
      },
      cancel() {
        close();
        reject(new Error("not logged in"));
      },
    });
  });
  return pending;
}

function close(): void {
  pending = null;
  asker(null);
}

// btoa takes one byte for each character; names and passwords are UTF-8.
function encode(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

function decode(text: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(text), (char) => char.charCodeAt(0)));
}
