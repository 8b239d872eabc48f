// Asks for user and password when the server wants them.
import { useEffect, useState } from "preact/hooks";
import { type Question, setAsker } from "../api/credentials";
import { Dialog } from "../parts/dialog";

export function LoginDialog() {
  const [question, setQuestion] = useState<Question | null>(null);
  useEffect(() => {
    setAsker(setQuestion);
    return () => setAsker(() => {});
  }, []);
  if (!question) return null;
  return <LoginForm question={question} />;
}

function LoginForm({ question }: { question: Question }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    question.answer(String(fields.get("user") ?? ""), String(fields.get("password") ?? ""));
  };
  return (
    <Dialog title="Log in" onClose={() => question.cancel()}>
      <form class="login" onSubmit={submit}>
        {question.reason && (
          <p class="error-text" role="alert">
            {question.reason}
          </p>
        )}
        <label class="field">
          <span>User</span>
          <input name="user" autocomplete="username" required autofocus />
        </label>
        <label class="field">
          <span>Password</span>
          <input name="password" type="password" autocomplete="current-password" required />
        </label>
        <p class="hint">They are kept until the tab is closed.</p>
        <div class="actions">
          <button type="button" class="button" onClick={() => question.cancel()}>
            Cancel
          </button>
          <button type="submit" class="button primary">
            Log in
          </button>
        </div>
      </form>
    </Dialog>
  );
}
