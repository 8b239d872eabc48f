// Moving a region: the target is chosen, confirmed, and the procedure is followed to its end.
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import { Dialog } from "../../parts/dialog";
import { ErrorBox } from "../../parts/states";
import { hasFailed, migrateRegion, type NodeRow, type PeerRow, procedureState } from "./load";

interface Props {
  region: PeerRow;
  targets: NodeRow[];
  onClose: () => void;
  onMoved: () => void;
}

const EVERY_MS = 500;
const WAIT_MS_MAX = 120_000;

type Step =
  | { kind: "ask" }
  | { kind: "moving"; procedure: string; state: string }
  | { kind: "done" }
  | { kind: "failed"; why: string };

export function MoveDialog({ region, targets, onClose, onMoved }: Props) {
  const [target, setTarget] = useState(String(targets[0]?.peer_id ?? ""));
  const [step, setStep] = useState<Step>({ kind: "ask" });
  const procedure = step.kind === "moving" ? step.procedure : null;
  const id = String(region.region_id);
  const from = String(region.peer_id);

  const begin = async (event: Event) => {
    event.preventDefault();
    try {
      setStep({ kind: "moving", procedure: await migrateRegion(id, from, target), state: "Running" });
    } catch (error) {
      setStep({ kind: "failed", why: messageOf(error) });
    }
  };
  useEffect(() => {
    if (procedure === null) return;
    let timer: ReturnType<typeof setTimeout>;
    let isWanted = true;
    const until = Date.now() + WAIT_MS_MAX;
    const look = async () => {
      const next = await follow(procedure, until);
      if (!isWanted) return;
      setStep(next);
      if (next.kind === "moving") timer = setTimeout(() => void look(), EVERY_MS);
      else onMoved();
    };
    void look();
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [procedure, onMoved]);

  return (
    <Dialog title={`Move region ${id}`} onClose={onClose}>
      <form class="move-form" onSubmit={begin}>
        <p>
          Region {id} of <strong>{`${region.table_schema}.${region.table_name}`}</strong> is on node {from}.
          Node {from} flushes and closes it, the other one opens it. Writes to it wait or fail for about a
          second.
        </p>
        <label class="field">
          <span>To</span>
          <select
            value={target}
            disabled={step.kind !== "ask"}
            onChange={(event) => setTarget(event.currentTarget.value)}
          >
            {targets.map((node) => (
              <option key={String(node.peer_id)} value={String(node.peer_id)}>
                node {String(node.peer_id)}, {node.peer_addr}
              </option>
            ))}
          </select>
        </label>
        <Progress step={step} target={target} />
        <p class="actions">
          <button type="button" class="button" onClick={onClose}>
            {step.kind === "ask" ? "Leave it" : "Close"}
          </button>
          {step.kind === "ask" && (
            <button type="submit" class="button primary" disabled={target === ""}>
              Move it to node {target}
            </button>
          )}
        </p>
      </form>
    </Dialog>
  );
}

function Progress({ step, target }: { step: Step; target: string }) {
  if (step.kind === "failed") return <ErrorBox message={step.why} />;
  return (
    <p role="status" class={step.kind === "done" ? "badge good" : "soft"}>
      {step.kind === "moving" && (
        <>
          <span class="spinner" aria-hidden="true" /> Procedure {step.procedure}: {step.state}
        </>
      )}
      {step.kind === "done" && `The region is on node ${target}.`}
    </p>
  );
}

async function follow(procedure: string, until: number): Promise<Step> {
  try {
    const { status, error } = await procedureState(procedure);
    if (status === "Done") return { kind: "done" };
    if (hasFailed(status)) return { kind: "failed", why: error ?? status };
    if (Date.now() > until) return { kind: "failed", why: `the procedure ${procedure} goes on: ${status}` };
    return { kind: "moving", procedure, state: error ? `${status}: ${error}` : status };
  } catch (error) {
    return { kind: "failed", why: messageOf(error) };
  }
}
