// The frame around all screens: navigation, the database, theme and zone, and the dialogs.
import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { callJson, messageOf } from "../api/client";
import { forgetCredentials, onCredentials, userName } from "../api/credentials";
import { ErrorBox, Loading } from "../parts/states";
import { SCREENS, type ScreenEntry, type Shortcut } from "../screens/registry";
import { chooseDatabase, useDatabase, useDatabases } from "./database";
import { HelpDialog } from "./help";
import { useGlobalKeys } from "./keys";
import { LoginDialog } from "./login";
import { followLinks, goTo, linkTo, usePlace } from "./place";
import { chooseTheme, useTheme } from "./theme";
import { chooseZone, timeZone, useZone } from "./zone";

export function App() {
  const { screen } = usePlace();
  const entry = SCREENS.find(({ name }) => name === screen) ?? SCREENS[0];
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [shortcuts, setShortcuts] = useState<Shortcut[]>([]);
  useGlobalKeys({ help: () => setHelpOpen(true), go: (name) => goTo(name) });
  useEffect(() => {
    document.addEventListener("click", followLinks);
    return () => document.removeEventListener("click", followLinks);
  }, []);
  useEffect(() => {
    document.title = entry ? `${entry.title} · tsdb` : "tsdb";
  }, [entry]);
  if (!entry) return null;
  return (
    <div class="frame">
      <button type="button" class="skip-link" onClick={focusMain}>
        Skip to content
      </button>
      <Navigation active={entry.name} />
      <TopBar title={entry.title} onHelp={() => setHelpOpen(true)} />
      <main id="main" class="main" tabIndex={-1}>
        <Screen key={entry.name} entry={entry} onShortcuts={setShortcuts} />
      </main>
      <LoginDialog />
      {isHelpOpen && (
        <HelpDialog title={entry.title} shortcuts={shortcuts} onClose={() => setHelpOpen(false)} />
      )}
    </div>
  );
}

function focusMain() {
  document.getElementById("main")?.focus();
}

function Navigation({ active }: { active: string }) {
  return (
    <nav class="nav" aria-label="Screens">
      <a class="brand" href={linkTo("query")} aria-label="tsdb">
        <img src="./icon.svg" alt="" width="26" height="26" />
        <span>tsdb</span>
      </a>
      <ul>
        {SCREENS.map(({ name, title, icon, key }) => (
          <li key={name}>
            <a href={linkTo(name)} aria-current={name === active ? "page" : undefined} title={`g ${key}`}>
              <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
                <path d={icon} />
              </svg>
              <span>{title}</span>
            </a>
          </li>
        ))}
      </ul>
      <Version />
    </nav>
  );
}

interface ServerStatus {
  version: string;
  component: string;
  hostname: string;
}

function Version() {
  const [status, setStatus] = useState<ServerStatus | null>(null);
  useEffect(() => {
    callJson<ServerStatus>("/status").then(setStatus, () => setStatus(null));
  }, []);
  if (!status) return null;
  return (
    <p class="version">
      {status.component} {status.version}
      <br />
      {status.hostname}
    </p>
  );
}

function TopBar({ title, onHelp }: { title: string; onHelp: () => void }) {
  const theme = useTheme();
  const zone = useZone();
  return (
    <header class="top-bar">
      <h1>{title}</h1>
      <DatabaseChoice />
      <div class="top-bar-end">
        <User />
        <label class="quiet-field">
          <span class="visually-hidden">Time zone</span>
          <select
            value={zone}
            title={`Time zone of all times on the page: ${timeZone()}`}
            onChange={(event) => chooseZone(event.currentTarget.value === "utc" ? "utc" : "local")}
          >
            <option value="local">Local time</option>
            <option value="utc">UTC</option>
          </select>
        </label>
        <button
          type="button"
          class="button quiet"
          aria-label={theme === "dark" ? "Use the light theme" : "Use the dark theme"}
          title={theme === "dark" ? "Light theme" : "Dark theme"}
          onClick={() => chooseTheme(theme === "dark" ? "light" : "dark")}
        >
          <svg viewBox="0 0 24 24" width="18" height="18" class="icon" aria-hidden="true">
            <path
              d={
                theme === "dark"
                  ? "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M19 5l-1.5 1.5M6.5 17.5L5 19"
                  : "M20 14.5A8.5 8.5 0 019.5 4 8.5 8.5 0 1020 14.5z"
              }
            />
          </svg>
        </button>
        <button
          type="button"
          class="button quiet"
          onClick={onHelp}
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts"
        >
          ?
        </button>
      </div>
    </header>
  );
}

function DatabaseChoice() {
  const database = useDatabase();
  const databases = useDatabases();
  const names = databases.includes(database) ? databases : [database, ...databases];
  return (
    <label class="inline-field">
      <span>Database</span>
      <select value={database} onChange={(event) => chooseDatabase(event.currentTarget.value)}>
        {names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function User() {
  const [name, setName] = useState(userName);
  useEffect(() => onCredentials(() => setName(userName())), []);
  if (name === null) return null;
  return (
    <button type="button" class="button quiet user" onClick={forgetCredentials} title="Forget the password">
      Log out <span>{name}</span>
    </button>
  );
}

/** A screen, loaded when it is first shown. One that fails is replaced by its error, and the frame stays. */
function Screen({ entry, onShortcuts }: { entry: ScreenEntry; onShortcuts: (found: Shortcut[]) => void }) {
  const [Loaded, setLoaded] = useState<{ component: ComponentType } | null>(null);
  const [failure, setFailure] = useState("");
  const [error, reset] = useErrorBoundary();
  useEffect(() => {
    let isWanted = true;
    onShortcuts([]);
    entry.load().then(
      (module) => {
        if (!isWanted) return;
        setLoaded({ component: module.default });
        onShortcuts(module.shortcuts ?? []);
      },
      (failed) => isWanted && setFailure(`${messageOf(failed)}; reload the page`),
    );
    return () => {
      isWanted = false;
    };
  }, [entry, onShortcuts]);
  if (failure) return <ErrorBox message={failure} />;
  if (error) return <ErrorBox message={messageOf(error)} onRetry={reset} />;
  return Loaded ? <Loaded.component /> : <Loading what={entry.title} />;
}
